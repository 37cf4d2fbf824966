// How a gateway connects to Redis servers that ask for more than an address, and what it says of those that it cannot use.
import { expect, it } from "vitest";

import type { ConfigInput } from "../../src/config/schema.ts";
import { createCertificate, type TestCertificate } from "../support/certificate.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { openGateway } from "../support/local-gateway.ts";
import { startRedis } from "../support/redis.ts";
import { replicaConfig } from "../support/replica-config.ts";
import { openPair } from "../support/replicas.ts";
import { exchange, post } from "../support/raw-http.ts";
import { legacyUpstream } from "../support/legacy-upstream.ts";
import { openSession } from "../support/legacy-session.ts";
import { startTcpProxy } from "../support/tcp-proxy.ts";

const ping = { jsonrpc: "2.0", id: 1, method: "ping" };

type RedisSettings = NonNullable<NonNullable<ConfigInput["state"]>["redis"]>;

const openWith = async (redis: RedisSettings) => openGateway(replicaConfig({ redis }, { upstream: { demo: true } }));

/** A server that takes encrypted connections only, from clients with the certificate. */
async function startEncrypted({ certFile, keyFile }: TestCertificate) {
  const port = await freePort();
  const files = ["--tls-cert-file", certFile, "--tls-key-file", keyFile, "--tls-ca-cert-file", certFile];
  const server = await startRedis({ more: ["--port", "0", "--tls-port", String(port), ...files] });
  return { ...server, url: `rediss://127.0.0.1:${port}` };
}

it.each(["rediss", "valkeys"])("finds peers over %s://, with the certificate that Redis asks for", async (scheme) => {
  using certificate = createCertificate("redis");
  const { certFile, keyFile } = certificate;
  await using server = await startEncrypted(certificate);
  const tls = { caFile: certFile, certFile, keyFile };
  const redis = { url: server.url.replace("rediss", scheme), tls };
  await using pair = await openPair({ redis }, { upstream: { demo: true } });
  expect(pair.one.gateway.metrics()).toMatch(/^headgate_peers 1$/mu);
});

it("says why a server cannot be used", async () => {
  using certificate = createCertificate("redis");
  await using encrypted = await startEncrypted(certificate);
  await using redis = await startRedis({ more: ["--requirepass", "a secret"] });
  const withPassword = (password: string): RedisSettings => ({ url: redis.url.replace("//", `//:${password}@`) });
  await using _gateway = await openWith(withPassword("a%20secret"));
  const refused = async (settings: RedisSettings, why: RegExp): Promise<void> =>
    expect(openWith(settings)).rejects.toThrow(why);
  await Promise.all([
    refused({ url: redis.url }, /did not answer within 10 s: NOAUTH/u),
    refused(withPassword("another"), /did not answer within 10 s: WRONGPASS/u),
    refused({ url: encrypted.url }, /did not answer within 10 s: .*certificate/u),
    refused({ url: encrypted.url, tls: { caFile: certificate.certFile } }, /certificate required/u),
  ]);
});

it("finds the primary behind a name that has moved, although the former one keeps its connections as a copy", async () => {
  await using former = await startRedis();
  await using next = await startRedis();
  const portOf = ({ url }: { readonly url: string }): string => new URL(url).port;
  await using name = await startTcpProxy(Number(portOf(former)));
  const redis = { url: `redis://127.0.0.1:${name.port}` };
  await using upstream = await legacyUpstream((call, { id }) => call.reply({ jsonrpc: "2.0", id, result: {} }));
  await using pair = await openPair({ redis }, { upstream: { url: upstream.url } });
  name.target = Number(portOf(next));
  await former.send("REPLICAOF", "127.0.0.1", portOf(next));
  await eventually(async () => expect(await next.send("SCARD", "hg:nodes")).toBe(2));
  // What one says there, the other hears.
  const session = await openSession(pair.one.url);
  expect((await post(pair.two.url, ping, session.headers)).status).toBe(200);
  expect((await exchange(pair.two.url, { method: "DELETE", headers: session.headers })).status).toBe(200);
  await eventually(async () => expect((await post(pair.one.url, ping, session.headers)).status).toBe(404));
});

it("refuses a Redis Cluster, which shares keys out, unless all keys have one hash tag", async () => {
  await using redis = await startRedis({ more: ["--cluster-enabled", "yes"] });
  await expect(openWith({ url: redis.url })).rejects.toThrow(/a node of a Redis Cluster.*prefix: "\{hg:\}"/u);
  await redis.send("CLUSTER", "ADDSLOTSRANGE", "0", "16383");
  await using pair = await openPair({ redis: { url: redis.url, prefix: "{hg:}" } }, { upstream: { demo: true } });
  await using third = await openGateway(pair.config);
  await eventually(() => expect(third.gateway.metrics()).toMatch(/^headgate_peers 2$/mu));
});
