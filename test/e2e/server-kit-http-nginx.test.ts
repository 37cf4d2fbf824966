import { request } from "node:https";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { once } from "node:events";
import type { IncomingMessage } from "node:http";

import { Client, SSEClientTransport, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { describe, expect, it } from "vitest";

import { createCertificate } from "../support/certificate.ts";
import { toolCall } from "../support/kit-client.ts";
import { openKitStream } from "../support/kit-stream.ts";
import { startNginx } from "../support/nginx.ts";
import { exchange } from "../support/raw-http.ts";
import { serveTestKit } from "../support/served-kit.ts";

const example = join(import.meta.dirname, "../../examples/deploy/nginx/server-kit.conf");

/** The location of the deployment example, with the kit's real address and, where asked, a prefix. */
function locationOf(upstream: string, prefix = ""): string {
  const text_ = readFileSync(example, "utf8");
  const location = /# begin location\n(?<block>[\s\S]*?)# end location/u.exec(text_)?.groups?.["block"] ?? "";
  return location
    .replaceAll("http://127.0.0.1:5110", upstream)
    .replace("location / {", `location ${prefix}/ {`)
    .replace("proxy_pass ", prefix === "" ? "proxy_pass " : `rewrite ^${prefix}(/.*)$ $1 break;\n  proxy_pass `)
    .replace('X-Forwarded-Prefix ""', `X-Forwarded-Prefix "${prefix}"`);
}

describe("a kit behind a real nginx", () => {
  it("[KO-052] [KO-058] streams every event at once, with the configuration of the deployment guide", async () => {
    await using kit = await serveTestKit({ settings: { trustedProxies: ["127.0.0.1"] } });
    await using nginx = await startNginx(locationOf(kit.origin));
    await using client = await openKitStream(`${nginx.origin}/mcp`);
    await client.post(toolCall(1, "Probe_Wait"));
    // The ack comes through while the call still runs: nothing on the way collects the stream.
    expect((await client.until("ack")).data).toBe('{"id":1}');
    await expect.poll(() => kit.waits.waiting).toBe(1);
    kit.release();
    expect((await client.until("result")).data).toContain("done");
    client.stream.close();
    await expect.poll(async () => (await kit.kit.health()).activeConnections).toBe(0);
  });

  it("[KO-052] serves official clients under a prefix that nginx takes off", async () => {
    await using kit = await serveTestKit({ settings: { trustedProxies: ["127.0.0.1"] } });
    await using nginx = await startNginx(locationOf(kit.origin, "/deep/tools"));
    const base = `${nginx.origin}/deep/tools/mcp`;
    const sse = new Client({ name: "t", version: "1" }, { versionNegotiation: { mode: "legacy" } });
    await sse.connect(new SSEClientTransport(new URL(`${base}/sse`)));
    expect((await sse.listTools()).tools.map(({ name }) => name)).toContain("TrialSite_List");
    await sse.close();
    const streamable = new Client({ name: "t", version: "1" });
    await streamable.connect(new StreamableHTTPClientTransport(new URL(base)));
    expect((await streamable.listTools()).tools.map(({ name }) => name)).toContain("TrialSite_List");
    await streamable.close();
    expect((await exchange(`${base}/capabilities`)).json).toMatchObject({
      transports: [{ streamEndpoint: "/deep/tools/mcp/sse" }, { endpoint: "/deep/tools/mcp" }],
    });
  });

  it("[KO-100] counts as HTTPS where nginx ends TLS and is trusted, and only then", async () => {
    using certificate = createCertificate("kit");
    const deployed = { deployed: true, name: "production" };
    await using kit = await serveTestKit({
      environment: deployed,
      settings: { trustedProxies: ["127.0.0.1"] },
    });
    await using careless = await serveTestKit({ environment: deployed });
    const tls = `ssl_certificate ${certificate.certFile};\n    ssl_certificate_key ${certificate.keyFile};\n    `;
    await using nginx = await startNginx(tls + locationOf(kit.origin), { isTls: true });
    await using unknown = await startNginx(tls + locationOf(careless.origin), { isTls: true });
    const token = await kit.token();
    expect(await askTls(`${nginx.origin}/mcp/capabilities`, token)).toMatchObject({ status: 200 });
    const plain = await exchange(`${kit.url}/capabilities`, {
      headers: { authorization: `Bearer ${token}` },
    });
    expect(plain.status).toBe(400);
    expect(plain.json).toMatchObject({ error: "https_required" });
    const untrusted = await askTls(`${unknown.origin}/mcp/capabilities`, await careless.token());
    expect(untrusted).toMatchObject({ status: 400, body: expect.stringContaining("https_required") });
  });
});

async function askTls(url: string, token: string): Promise<{ status: number | undefined; body: string }> {
  const outgoing = request(url, { rejectUnauthorized: false, headers: { authorization: `Bearer ${token}` } });
  outgoing.end();
  const [response] = (await once(outgoing, "response")) as [IncomingMessage];
  return { status: response.statusCode, body: await text(response) };
}
