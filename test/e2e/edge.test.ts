import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { connect, createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import type { TLSSocket } from "node:tls";

import { describe, expect, it } from "vitest";

import { createLogger } from "../../src/telemetry/log.ts";
import { createCertificate } from "../support/certificate.ts";
import type { UpstreamCall } from "../support/fake-upstream.ts";
import { startGateway } from "../support/gateway.ts";
import { openSession, textResult, toolCall } from "../support/legacy-session.ts";
import { legacyUpstream, type Answering } from "../support/legacy-upstream.ts";
import { openGateway } from "../support/local-gateway.ts";
import { modernRequest } from "../support/modern-request.ts";
import { startProcess } from "../support/process.ts";
import { exchange, post, postHeaders } from "../support/raw-http.ts";

const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
const pong: Answering = (call, { id }) => call.reply({ jsonrpc: "2.0", id, result: {} });

describe("the Host and Origin of a request", () => {
  it.each([
    { what: "a foreign Host", headers: { host: "evil.example" } },
    { what: "a foreign Host with a loopback port", headers: { host: "evil.example:80" } },
    { what: "a Host that begins like ours", headers: { host: "localhost.evil.example" } },
    { what: "a foreign Origin", headers: { origin: "https://evil.example" } },
    { what: "an Origin that begins like ours", headers: { origin: "http://localhost.evil.example" } },
    { what: "an Origin that is none", headers: { origin: "null" } },
  ])("are refused with $what, whatever the path", async ({ headers }) => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({ upstream: { url: upstream.url } });
    expect((await post(gateway.url, ping, headers)).status).toBe(403);
    expect((await exchange(`${gateway.origin}/healthz`, { headers })).status).toBe(403);
    expect((await exchange(`${gateway.origin}/sse`, { headers })).status).toBe(403);
    expect(upstream.calls).toHaveLength(0);
  });

  it.each([
    ["Host", "host: evil.example"],
    ["Authorization", "Authorization: Bearer a\r\nauthorization: Bearer b"],
    ["Content-Type", "Content-Type: application/json\r\nCONTENT-TYPE: text/plain"],
  ])("are refused with two %s headers, which servers would read differently", async (_name, lines) => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({ upstream: { url: upstream.url }, admin: { port: 0 } });
    for (const origin of [gateway.origin, gateway.adminUrl ?? ""]) {
      const { port, host } = new URL(origin);
      const socket = connect(Number(port), "127.0.0.1");
      socket.end(`GET /healthz HTTP/1.1\r\nHost: ${host}\r\n${lines}\r\nConnection: close\r\n\r\n`);
      expect(await text(socket)).toMatch(/^HTTP\/1\.1 400 /u);
    }
  });

  it("are checked on the admin listener too: a page must not read figures by DNS rebinding", async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({ upstream: { url: upstream.url }, admin: { port: 0 } });
    for (const path of ["/metrics", "/readyz", "/healthz"]) {
      const url = `${gateway.adminUrl}${path}`;
      expect((await exchange(url, { headers: { host: "evil.example" } })).status).toBe(403);
      expect((await exchange(url, { headers: { origin: "https://evil.example" } })).status).toBe(403);
      expect((await exchange(url, {})).status).toBe(200);
    }
  });

  it("may be those of this machine, and those that are configured", async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({
      upstream: { url: upstream.url },
      listen: { allowedHosts: ["gate.example"], allowedOrigins: ["https://app.example"] },
    });
    const { headers } = await openSession(gateway.url);
    for (const allowed of [
      { host: "localhost:1234" },
      { host: "[::1]" },
      { host: "gate.example:8443" },
      { origin: "http://localhost:5173" },
      { origin: "https://app.example" },
    ]) {
      expect((await post(gateway.url, ping, { ...headers, ...allowed })).status).toBe(200);
    }
  });
});

describe("a page in a browser", () => {
  const origin = "https://app.example";

  it("asks first, and may then call and read what it needs", async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({
      upstream: { url: upstream.url },
      cors: { origins: [origin] },
    });
    const preflight = await exchange(gateway.url, {
      method: "OPTIONS",
      headers: {
        origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "content-type,mcp-session-id,mcp-method",
      },
    });
    expect(preflight.status).toBe(204);
    expect(preflight.headers).toMatchObject({
      "access-control-allow-origin": origin,
      "access-control-allow-headers": "content-type,mcp-session-id,mcp-method",
      vary: "Origin",
    });
    expect(preflight.headers["access-control-allow-methods"]?.split(", ").toSorted()).toEqual([
      "DELETE",
      "GET",
      "POST",
    ]);
    const { headers } = await openSession(gateway.url);
    const answer = await post(gateway.url, ping, { ...headers, origin });
    expect(answer).toMatchObject({ status: 200, headers: { "access-control-allow-origin": origin } });
    expect(answer.headers["access-control-expose-headers"]?.toLowerCase()).toContain("mcp-session-id");
    expect(upstream.received("ping")[0]?.headers).not.toHaveProperty("origin");
  });

  it("is answered as its route says, not as the listener or another route", async () => {
    await using upstream = await legacyUpstream(pong);
    const other = "https://other.example";
    await using gateway = await openGateway({
      cors: { origins: [origin] },
      routes: {
        open: { upstream: { url: upstream.url }, cors: { origins: [other] } },
        plain: { upstream: { url: upstream.url } },
      },
    });
    const urlOf = (route: string) => `${gateway.origin}/${route}/mcp`;
    const preflight = async (route: string, from: string) =>
      exchange(urlOf(route), {
        method: "OPTIONS",
        headers: { origin: from, "access-control-request-method": "POST" },
      });
    expect(await preflight("open", other)).toMatchObject({
      status: 204,
      headers: { "access-control-allow-origin": other },
    });
    expect((await preflight("open", origin)).status).toBe(403);
    expect((await preflight("plain", other)).status).toBe(403);
    expect(await preflight("plain", origin)).toMatchObject({ status: 204 });
    const { headers } = await openSession(urlOf("open"));
    const answer = await post(urlOf("open"), ping, { ...headers, origin: other });
    expect(answer).toMatchObject({ status: 200, headers: { "access-control-allow-origin": other } });
    expect((await post(urlOf("open"), ping, { ...headers, origin })).status).toBe(403);
  });

  it("of an origin that is only allowed to call may not read", async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({
      upstream: { url: upstream.url },
      listen: { allowedOrigins: [origin] },
    });
    const { headers } = await openSession(gateway.url);
    const answer = await post(gateway.url, ping, { ...headers, origin });
    expect(answer.status).toBe(200);
    expect(answer.headers).not.toHaveProperty("access-control-allow-origin");
  });
});

describe("a request that is wrong as HTTP", () => {
  it("is refused for what is wrong with it, and nothing of it goes upstream", async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({ upstream: { url: upstream.url }, limits: { bodyBytes: 1000 } });
    const large = JSON.stringify({ ...ping, params: { text: "x".repeat(2000) } });
    const tooLarge = { status: 413, json: { error: { data: { origin: "gateway", code: "too_large" } } } };
    expect(await post(gateway.url, large)).toMatchObject(tooLarge);
    expect(await post(gateway.url, large, { "transfer-encoding": "chunked" })).toMatchObject(tooLarge);
    expect(await post(gateway.url, "{")).toMatchObject({ status: 400, json: { error: { code: -32_700 } } });
    expect(await post(gateway.url, "true")).toMatchObject({
      status: 400,
      json: { error: { code: -32_600 } },
    });
    expect(await post(gateway.url, { ...ping, jsonrpc: "1.0" })).toMatchObject({
      status: 400,
      json: { id: 1, error: { code: -32_600, data: { origin: "gateway" } } },
    });
    const asText = await post(gateway.url, ping, { "content-type": "text/plain" });
    expect(asText.status).toBe(415);
    const { "content-type": _type, ...untyped } = postHeaders;
    expect((await exchange(gateway.url, { method: "POST", headers: untyped, body: ping })).status).toBe(415);
    expect(upstream.calls).toHaveLength(0);
  });

  it("is told which verbs there are", async () => {
    await using upstream = await legacyUpstream(pong);
    await using both = await openGateway({ upstream: { url: upstream.url } });
    expect(await exchange(both.url, { method: "PUT" })).toMatchObject({
      status: 405,
      headers: { allow: "POST, GET, DELETE" },
    });
    const { headers } = await openSession(both.url);
    expect((await exchange(both.url, { headers: { ...headers, accept: "text/html" } })).status).toBe(406);
  });

  it("elsewhere is told where the endpoints are", async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({
      routes: { files: { upstream: { url: upstream.url } }, mail: { upstream: { url: upstream.url } } },
    });
    const missing = await exchange(`${gateway.origin}/nothing/mcp`);
    expect(missing.status).toBe(404);
    expect(missing.text).toContain("/files/mcp, /mail/mcp");
    expect(missing.json).toBeUndefined();
    expect((await exchange(`${gateway.origin}/`)).text).toContain("/files/mcp");
    expect(await exchange(`${gateway.origin}/healthz`)).toMatchObject({ status: 200, text: "ok\n" });
    // What is for operators is not on the clients' listener.
    expect((await exchange(`${gateway.origin}/metrics`)).status).toBe(404);
  });
});

describe("the listener", () => {
  it("speaks https with a certificate that is read anew when it is replaced", async () => {
    using certificate = createCertificate("first");
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({
      upstream: { url: upstream.url },
      listen: { tls: { certFile: certificate.certFile, keyFile: certificate.keyFile } },
    });
    expect(gateway.origin).toMatch(/^https:/u);
    expect(await overTls(`${gateway.origin}/healthz`)).toEqual({
      status: 200,
      commonName: "first",
      body: "ok\n",
    });
    certificate.replace("second");
    await expect.poll(async () => (await overTls(`${gateway.origin}/healthz`)).commonName).toBe("second");
  });

  it("keeps the certificate it has when the new one is none", async () => {
    using certificate = createCertificate("first");
    await using upstream = await legacyUpstream(pong);
    const { certFile, keyFile } = certificate;
    const lines: string[] = [];
    const log = createLogger({
      level: "warn",
      pretty: false,
      destination: { write: (line) => lines.push(line) },
    });
    await using gateway = await openGateway(
      { upstream: { url: upstream.url }, listen: { tls: { certFile, keyFile } } },
      { log },
    );
    writeFileSync(certFile, "half a certificate");
    await expect.poll(() => lines.join("")).toContain("keeping the old one");
    expect((await overTls(`${gateway.origin}/healthz`)).commonName).toBe("first");
    certificate.replace("second");
    await expect.poll(async () => (await overTls(`${gateway.origin}/healthz`)).commonName).toBe("second");
  });

  it("can be a Unix socket, also where an old one lies in the way", async () => {
    const folder = mkdtempSync(join(tmpdir(), "headgate-socket-"));
    const unixSocket = join(folder, "gate");
    // What a process that was killed leaves behind.
    const left = await startProcess([
      process.execPath,
      "-e",
      `require("net").createServer().listen(${JSON.stringify(unixSocket)}, () => console.log("up"))`,
    ]);
    await left.waitForLine(/^up$/u);
    process.kill(left.pid, "SIGKILL");
    await left.exited;
    expect(existsSync(unixSocket)).toBe(true);
    try {
      await using upstream = await legacyUpstream(pong);
      await using gateway = await openGateway({ upstream: { url: upstream.url }, listen: { unixSocket } });
      expect(gateway.origin).toBe(unixSocket);
      const outgoing = httpRequest({
        socketPath: unixSocket,
        path: "/healthz",
        headers: { host: "localhost" },
      });
      outgoing.end();
      const [response] = (await once(outgoing, "response")) as [IncomingMessage];
      expect(await text(response)).toBe("ok\n");
      await expect(openGateway({ upstream: { url: upstream.url }, listen: { unixSocket } })).rejects.toThrow(
        /another process listens/u,
      );
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("that finds its port in use says so in one line", async () => {
    const taken = createServer();
    taken.listen(0, "127.0.0.1");
    await once(taken, "listening");
    const { port } = taken.address() as AddressInfo;
    const failing = startGateway(["run", "--port", String(port)]);
    await expect(failing).rejects.toThrow(
      new RegExp(`ended \\(1\\)[^]*headgate: 127\\.0\\.0\\.1:${port} is in use by another process`, "u"),
    );
    taken.close();
  });
});

describe("the end of the process", () => {
  it("waits for a running call, takes no new ones, and is clean", async () => {
    const arrived = Promise.withResolvers<UpstreamCall>();
    await using upstream = await legacyUpstream((call, message) =>
      message.method === "tools/call" ? arrived.resolve(call) : pong(call, message),
    );
    await using gateway = await startGateway(["run", "--upstream", upstream.url, "--port", "0"]);
    const session = await openSession(gateway.url);
    const running = session.post(toolCall("call", "long"));
    const call = await arrived.promise;
    process.kill(gateway.process.pid, "SIGTERM");
    await expect
      .poll(async () =>
        session.post(ping).then(
          ({ status }) => status,
          () => "refused",
        ),
      )
      .not.toBe(200);
    call.reply(textResult("call", "done"));
    expect(await running).toMatchObject({ status: 200, json: textResult("call", "done") });
    expect(await gateway.process.exited).toEqual({ code: 0, signal: null });
  });

  it("does not wait longer than it is told to, and answers what it cuts", async () => {
    const arrived = Promise.withResolvers<UpstreamCall>();
    await using upstream = await legacyUpstream((call, message) =>
      message.method === "tools/call" ? arrived.resolve(call) : pong(call, message),
    );
    await using gateway = await openGateway({ upstream: { url: upstream.url }, shutdown: { grace: "50ms" } });
    const session = await openSession(gateway.url);
    const running = session.post(toolCall(1, "endless"));
    const call = await arrived.promise;
    await gateway.gateway.close();
    expect(await running).toMatchObject({ json: { id: 1, error: { data: { origin: "gateway" } } } });
    await call.closed;
  });
});

describe("operators", () => {
  it("see on a listener of its own what the gateway does", async () => {
    await using upstream = await legacyUpstream(pong);
    await using gateway = await openGateway({
      routes: { files: { upstream: { url: upstream.url } } },
      admin: { port: 0 },
    });
    const session = await openSession(gateway.url);
    await session.post(ping);
    await post(gateway.url, "{");
    const { headers, body } = modernRequest("m", "no/such/method");
    await post(gateway.url, body, headers);

    const metrics = await exchange(`${gateway.adminUrl}/metrics`);
    expect(metrics.headers["content-type"]).toMatch(/^text\/plain; version=0\.0\.4/u);
    expect(metrics.text).toMatch(
      /^headgate_exchanges_total\{[^}]*route="files"[^}]*method="ping"[^}]*era="legacy"[^}]*outcome="ok"[^}]*\} 1$/mu,
    );
    expect(metrics.text).toMatch(/^headgate_refusals_total\{[^}]*code="parse_error"[^}]*\} 1$/mu);
    // Names that clients make up are no labels.
    expect(metrics.text).not.toContain("no/such/method");
    expect(metrics.text).toMatch(/^headgate_sessions\{?[^\n]* 1$/mu);

    const ready = await exchange(`${gateway.adminUrl}/readyz`);
    expect(ready).toMatchObject({ status: 200, json: { ready: true } });
    expect(JSON.stringify(ready.json)).toContain("files");
    expect((await exchange(`${gateway.adminUrl}/mcp`)).status).toBe(404);
  });

  it("find the same on the only port where there is no configuration", async () => {
    await using gateway = await startGateway(["run", "--port", "0"]);
    for (const path of ["/healthz", "/readyz", "/metrics"]) {
      expect((await exchange(`${gateway.origin}${path}`)).status).toBe(200);
    }
  });
});

/** A request that takes any certificate and tells whose it was. */
async function overTls(url: string): Promise<{ status: number; commonName: unknown; body: string }> {
  const outgoing = httpsRequest(url, { rejectUnauthorized: false, agent: false });
  outgoing.end();
  const [response] = (await once(outgoing, "response")) as [IncomingMessage];
  const commonName = (response.socket as TLSSocket).getPeerCertificate().subject.CN;
  return { status: response.statusCode ?? 0, commonName, body: await text(response) };
}
