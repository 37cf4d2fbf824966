import { hash, X509Certificate } from "node:crypto";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import { request } from "node:https";
import { text } from "node:stream/consumers";

import { describe, expect, it } from "vitest";

import { formatApiKey, hashApiKey } from "../../src/auth/api-key.ts";
import type { ConfigInput } from "../../src/config/schema.ts";
import { proceed } from "../../src/core/interceptors/action.ts";
import { defineInterceptor } from "../../src/core/interceptors/interceptor.ts";
import type { Principal } from "../../src/core/exchange.ts";
import { createCertificate } from "../support/certificate.ts";
import { createAuthority, type KeyedCertificate } from "../support/client-certificates.ts";
import { handshake } from "../support/legacy-session.ts";
import { legacyUpstream, type Answering } from "../support/legacy-upstream.ts";
import { openGateway } from "../support/local-gateway.ts";
import { postHeaders } from "../support/raw-http.ts";
import { bearer, startIssuer } from "../support/tokens.ts";

const pong: Answering = (received, { id }) => received.reply({ jsonrpc: "2.0", id, result: {} });
const key = formatApiKey(new Uint8Array(32).fill(9));
const robots = { apiKeys: { keys: { ci: { hash: hashApiKey(key) } } } };

interface TlsAnswer {
  readonly status: number;
  readonly text: string;
}

async function call(
  url: string,
  certificate: KeyedCertificate | undefined,
  headers: Readonly<Record<string, string>> = {},
): Promise<TlsAnswer> {
  const outgoing = request(url, {
    method: "POST",
    agent: false,
    rejectUnauthorized: false,
    headers: { ...postHeaders, ...headers },
    ...certificate,
  });
  const answered = once(outgoing, "response");
  outgoing.end(JSON.stringify(handshake("2025-11-25")));
  const [response] = (await answered) as [IncomingMessage];
  return { status: response.statusCode ?? 0, text: await text(response) };
}

async function setUp(
  auth: NonNullable<ConfigInput["auth"]>,
  caFile: string,
  clientCertificate: "required" | "optional" = "optional",
) {
  const server = createCertificate("gate");
  const upstream = await legacyUpstream(pong);
  const callers: Principal[] = [];
  const looking = defineInterceptor({
    name: "looking",
    methods: ["initialize"],
    phase: "request",
    onMessage: ({ exchange: { principal } }) => {
      callers.push(principal);
      return proceed();
    },
  });
  const { certFile, keyFile } = server;
  const gateway = await openGateway(
    {
      listen: { tls: { certFile, keyFile, caFile, clientCertificate } },
      auth,
      upstream: { url: upstream.url },
    },
    { interceptors: [looking] },
  );
  return {
    url: gateway.url,
    callers,
    [Symbol.asyncDispose]: async () => {
      await gateway[Symbol.asyncDispose]();
      await upstream[Symbol.asyncDispose]();
      server[Symbol.dispose]();
    },
  };
}

describe("a client certificate", () => {
  it("says who its holder is", async () => {
    using authority = createAuthority("ours");
    await using place = await setUp(
      { authenticators: { machines: { certificate: { scopes: ["mcp:use"] } } }, scopes: ["mcp:use"] },
      authority.caFile,
    );
    expect((await call(place.url, authority.issue("robot-7"))).status).toBe(200);
    expect(place.callers).toMatchObject([
      {
        id: "certificate:machines/O=Example,CN=robot-7",
        kind: "certificate",
        claims: { sub: "O=Example,CN=robot-7", issuer: "CN=ours" },
      },
    ]);
  });

  it("may name its holder by an alternative name or its fingerprint", async () => {
    using authority = createAuthority("ours");
    const certificate = authority.issue("robot-7", "URI:spiffe://example/robot");
    const fingerprint = new X509Certificate(certificate.cert).fingerprint256.replaceAll(":", "").toLowerCase();
    for (const [identity, name] of [
      ["uri", "spiffe://example/robot"],
      ["fingerprint", fingerprint],
    ] as const) {
      await using place = await setUp({ authenticators: { m: { certificate: { identity } } } }, authority.caFile);
      expect((await call(place.url, certificate)).status).toBe(200);
      expect(place.callers[0]?.id).toBe(`certificate:m/${name}`);
      // A certificate without that name, or with two of them, names nobody.
      if (identity === "fingerprint") continue;
      expect((await call(place.url, authority.issue("robot-8"))).status).toBe(401);
      expect((await call(place.url, authority.issue("x", "URI:spiffe://a,URI:spiffe://b"))).status).toBe(401);
    }
  });

  it("of an authority that is not trusted is as good as none", async () => {
    using ours = createAuthority("ours");
    using theirs = createAuthority("ours");
    await using place = await setUp({ authenticators: { machines: { certificate: {} } } }, ours.caFile);
    expect((await call(place.url, theirs.issue("robot-7"))).status).toBe(401);
    expect((await call(place.url, undefined)).status).toBe(401);
  });

  it("is demanded before anything else where it is required", async () => {
    using authority = createAuthority("ours");
    await using place = await setUp({ authenticators: { m: { certificate: {} } } }, authority.caFile, "required");
    await expect(call(place.url, undefined)).rejects.toMatchObject({ code: expect.any(String) as string });
    expect((await call(place.url, authority.issue("robot-7"))).status).toBe(200);
  });

  it("can be one way among others on one route", async () => {
    using authority = createAuthority("ours");
    await using place = await setUp({ authenticators: { machines: { certificate: {} }, robots } }, authority.caFile);
    expect((await call(place.url, undefined, bearer(key))).status).toBe(200);
    expect((await call(place.url, authority.issue("robot-7"))).status).toBe(200);
    expect(place.callers.map(({ kind }) => kind)).toEqual(["key", "certificate"]);
  });

  it("makes a token that is bound to it good, and only together with it (RFC 8705)", async () => {
    using authority = createAuthority("ours");
    await using issuer = await startIssuer();
    await using place = await setUp({ authenticators: { staff: { jwt: { issuer: issuer.url } } } }, authority.caFile);
    const own = authority.issue("robot-7");
    const thumbprint = hash("sha256", new X509Certificate(own.cert).raw, "base64url");
    const token = await issuer.token({ audience: place.url, claims: { cnf: { "x5t#S256": thumbprint } } });
    expect((await call(place.url, own, bearer(token))).status).toBe(200);
    expect((await call(place.url, authority.issue("thief"), bearer(token))).status).toBe(401);
    expect((await call(place.url, undefined, bearer(token))).status).toBe(401);
  });
});
