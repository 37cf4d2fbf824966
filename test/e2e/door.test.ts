import { connect } from "node:net";
import { text as readText } from "node:stream/consumers";
import { connect as connectTls, type ConnectionOptions } from "node:tls";

import { describe, expect, it } from "vitest";

import type { ExchangeRecord } from "../../src/recorder/contract.ts";
import { bin, type Folder, headgate, temporaryFolder } from "../support/capture-file.ts";
import { createCertificate } from "../support/certificate.ts";
import { createAuthority } from "../support/client-certificates.ts";
import { startProcess } from "../support/process.ts";
import { type RunningGateway, startGateway } from "../support/gateway.ts";
import { handshake, openSession, toolCall } from "../support/legacy-session.ts";
import { exchange, openStream, postHeaders, type RawAnswer, type RawRequest } from "../support/raw-http.ts";
import { bearer } from "../support/tokens.ts";
import { hashApiKey } from "../../src/auth/api-key.ts";

const key = "hgk_of-ann";
const auth = { authenticators: { robots: { apiKeys: { keys: { ann: { hash: hashApiKey(key) } } } } } };

/** Requests that bring no message, by the code that they are refused with. */
const refused: readonly (readonly [code: string, path: string, request: RawRequest])[] = [
  ["host_not_allowed", "/mcp", { headers: { host: "evil.example" } }],
  ["origin_not_allowed", "/mcp", { headers: { origin: "https://evil.example" } }],
  ["not_found", "/nothing/here", {}],
  ["unauthenticated", "/mcp", { method: "POST", headers: postHeaders, body: handshake("2025-11-25") }],
  ["method_not_allowed", "/mcp", { method: "PUT", headers: bearer(key) }],
  [
    "unsupported_media_type",
    "/mcp",
    { method: "POST", headers: { ...bearer(key), "content-type": "text/plain" }, body: "x" },
  ],
  ["parse_error", "/mcp", { method: "POST", headers: { ...postHeaders, ...bearer(key) }, body: "{nonsense" }],
  [
    "session_unknown",
    "/mcp",
    { method: "POST", headers: { ...postHeaders, ...bearer(key), "mcp-session-id": "none" }, body: toolCall(1, "x") },
  ],
];

async function start(folder: Folder, listen: object = {}): Promise<RunningGateway> {
  const config = {
    listen: { port: 0, ...listen },
    admin: { port: 0 },
    log: { level: "info", format: "json" },
    record: { file: folder.at("traffic.sqlite") },
    auth,
    upstream: { demo: true },
    policy: { rules: [{ id: "reading", allow: 'principal.name == "ann"' }] },
  };
  return startGateway(["run", "--config", folder.write("headgate.json", JSON.stringify(config))]);
}

function jsonLines<Line>(text: string): Line[] {
  return text.split("\n").flatMap((line) => (line.startsWith("{") ? [JSON.parse(line) as Line] : []));
}

async function refusedRows(folder: Folder): Promise<ExchangeRecord[]> {
  const store = folder.at("traffic.sqlite");
  return jsonLines((await headgate("traffic", "status:refused", "--oldest", "--json", "-s", store)).output);
}

/** Sends bytes on a connection of their own; everything that came back when it was closed. */
async function sendBytes(origin: string, bytes: string): Promise<string> {
  const { hostname, port } = new URL(origin);
  const socket = connect(Number(port), hostname);
  socket.write(bytes);
  return readText(socket);
}

/** Tries a TLS handshake, and waits until the other side has closed the connection. */
async function shakeHands(options: ConnectionOptions): Promise<void> {
  const socket = connectTls(options);
  socket.on("error", () => {}).resume();
  await new Promise((resolve) => socket.once("close", resolve));
}

function refusedLines(gateway: RunningGateway): Record<string, unknown>[] {
  const lines = jsonLines<Record<string, unknown>>(gateway.process.output());
  return lines.filter(({ msg }) => msg === "request refused");
}

describe("requests that are refused at the door", () => {
  it("[SC-064] are logged, counted and recorded, and a foreign Host is told the setting", async () => {
    using folder = temporaryFolder();
    await using gateway = await start(folder);
    const answers: RawAnswer[] = [];
    for (const [, path, request] of refused) answers.push(await exchange(`${gateway.origin}${path}`, request));
    expect(answers[0]?.text).toContain("`listen.allowedHosts`");
    // What may be read as JSON-RPC says whose refusal it is.
    const told = refused.flatMap(([code], index) => {
      const { json, headers } = answers[index] ?? {};
      return headers?.["content-type"] === "application/json" ? [{ code, json }] : [];
    });
    expect(told.map(({ code }) => code)).toEqual(refused.map(([code]) => code).slice(-told.length));
    expect(told.length).toBeGreaterThanOrEqual(4);
    for (const { code, json } of told) expect(json).toMatchObject({ error: { data: { origin: "gateway", code } } });
    const [, admin = ""] = await gateway.process.waitForLine(/(http:[^\s"]+)\/metrics/u);
    const metrics = (await exchange(`${admin}/metrics`)).text;
    await gateway.process.stop();
    const lines = refusedLines(gateway);
    const { output } = await headgate(
      "traffic",
      "status:refused",
      "--oldest",
      "--json",
      "-s",
      folder.at("traffic.sqlite"),
    );
    const rows = jsonLines<ExchangeRecord>(output);
    expect(lines.map(({ code }) => code)).toEqual(refused.map(([code]) => code));
    expect(rows.map(({ kind, gatewayCode }) => [kind, gatewayCode])).toEqual(refused.map(([code]) => ["http", code]));
    for (const [code] of refused)
      expect(metrics).toMatch(new RegExp(`headgate_refusals_total\\{route="[^"]*",code="${code}"\\} 1`, "u"));
    expect(lines[0]).toMatchObject({
      level: "warn",
      host: "evil.example",
      setting: "listen.allowedHosts or listen.publicUrl",
    });
    expect(lines[1]).toMatchObject({ level: "warn", origin: "https://evil.example" });
    expect(rows.map(({ route }) => route).slice(0, 4)).toEqual(["", "", "", "default"]);
  });

  it("are seen too where no handler of a route takes them: bytes that are no HTTP, operators, HTTP+SSE", async () => {
    using folder = temporaryFolder();
    await using gateway = await start(folder);
    const [, admin = ""] = await gateway.process.waitForLine(/(http:[^\s"]+)\/metrics/u);
    const noHttp = await sendBytes(gateway.origin, "this is not HTTP\r\n\r\n");
    expect(noHttp).toMatch(/^HTTP\/1\.1 400 Bad Request\r\n/u);
    const tooLarge = await sendBytes(gateway.origin, `GET / HTTP/1.1\r\nHost: x\r\nA: ${"a".repeat(100_000)}\r\n\r\n`);
    expect(tooLarge).toMatch(/^HTTP\/1\.1 431 /u);
    await sendBytes(admin, "nor is this\r\n\r\n");
    const foreign = await exchange(`${admin}/metrics`, { headers: { host: "evil.example" } });
    const answers = [
      foreign,
      await exchange(`${admin}/metrics`, { headers: { origin: "https://evil.example" } }),
      await exchange(`${admin}/nothing`),
      await exchange(`${admin}/api/v1/nothing`),
      await exchange(`${admin}/api/v1/exchanges`, { method: "PATCH" }),
      await exchange(`${admin}/api/v1/exchanges`),
      await exchange(`${gateway.origin}/sse`, { method: "PUT", headers: bearer(key) }),
      await exchange(`${gateway.origin}/messages?sessionId=secret-of-ann`, {
        method: "POST",
        headers: { ...postHeaders, ...bearer(key) },
        body: toolCall(1, "x"),
      }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([403, 403, 404, 404, 405, 401, 405, 404]);
    const metrics = (await exchange(`${admin}/metrics`)).text;
    await gateway.process.stop();
    const output = gateway.process.output();
    expect(output).not.toContain("secret-of-ann");
    const lines = refusedLines(gateway);
    const rows = await refusedRows(folder);
    const codes = [
      "bad_request",
      "too_large",
      "bad_request",
      "host_not_allowed",
      "origin_not_allowed",
      "not_found",
      "not_found",
      "method_not_found",
      "unauthenticated",
      "method_not_allowed",
      "session_unknown",
    ];
    expect(lines.map(({ code }) => code)).toEqual(codes);
    expect(rows.map(({ gatewayCode }) => gatewayCode)).toEqual(codes);
    for (const code of codes)
      expect(metrics).toMatch(new RegExp(`headgate_refusals_total\\{route="[^"]*",code="${code}"\\} [1-9]`, "u"));
  });

  it.each(["clients", "operators"])("are seen where Node would refuse them itself: %s", async (who) => {
    using folder = temporaryFolder();
    await using gateway = await start(folder);
    const [, admin = ""] = await gateway.process.waitForLine(/(http:[^\s"]+)\/metrics/u);
    const place = who === "clients" ? gateway.origin : admin;
    const end = "Connection: close\r\n\r\n";
    const answers = [
      await sendBytes(place, `CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n`),
      await sendBytes(place, `GET /healthz HTTP/1.1\r\n${end}`),
      await sendBytes(place, `GET /nothing HTTP/1.1\r\nHost: localhost\r\nExpect: miracles\r\n${end}`),
    ];
    expect(answers.map((answer) => answer.split(" ")[1])).toEqual(["405", "400", "404"]);
    const metrics = (await exchange(`${admin}/metrics`)).text;
    await gateway.process.stop();
    const codes = ["method_not_allowed", "bad_request", "not_found"];
    expect(refusedLines(gateway).map(({ code }) => code)).toEqual(codes);
    expect((await refusedRows(folder)).map(({ gatewayCode }) => gatewayCode)).toEqual(codes);
    for (const code of codes) expect(metrics).toContain(`headgate_refusals_total{route="",code="${code}"} 1`);
  });

  it("are seen where TLS fails, with the reason", async () => {
    using folder = temporaryFolder();
    using authority = createAuthority("ours");
    using other = createAuthority("theirs");
    using server = createCertificate("gate");
    const { certFile, keyFile } = server;
    await using gateway = await start(folder, { tls: { certFile, keyFile, caFile: authority.caFile } });
    const { port } = new URL(gateway.origin);
    const place = { host: "127.0.0.1", port: Number(port) };
    await readText(connect(place).end("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")).catch(() => "");
    await shakeHands({ ...place, rejectUnauthorized: false });
    await shakeHands({ ...place, rejectUnauthorized: false, ...other.issue("robot") });
    const old = { minVersion: "TLSv1", maxVersion: "TLSv1.1", ciphers: "ALL:@SECLEVEL=0" } as const;
    await shakeHands({ ...place, rejectUnauthorized: false, ...authority.issue("robot"), ...old });
    // One who only looks whether the port is open is refused nothing.
    await readText(connect(place).end()).catch(() => "");
    const [, admin = ""] = await gateway.process.waitForLine(/(http:[^\s"]+)\/metrics/u);
    const metrics = (await exchange(`${admin}/metrics`)).text;
    await gateway.process.stop();
    expect(refusedLines(gateway)).toMatchObject([
      { level: "info", code: "tls_failed", reason: expect.stringContaining("plain HTTP") },
      { level: "info", code: "tls_failed", reason: expect.stringContaining("no certificate") },
      { level: "info", code: "tls_failed", reason: expect.stringContaining("not from a CA") },
      { level: "info", code: "tls_failed", reason: expect.stringContaining("unsupported protocol") },
    ]);
    expect((await refusedRows(folder)).map(({ gatewayCode }) => gatewayCode)).toEqual(Array(4).fill("tls_failed"));
    expect(metrics).toContain('headgate_refusals_total{route="",code="tls_failed"} 4');
    const [row] = await refusedRows(folder);
    const shown = (await headgate("traffic", "show", row?.id ?? "", "-s", folder.at("traffic.sqlite"))).output;
    expect(shown).toMatch(/ refused tls_failed: the client speaks plain HTTP/u);
    expect(shown).not.toContain("route");
  });

  it("are seen on an open HTTP+SSE connection", async () => {
    using folder = temporaryFolder();
    await using gateway = await start(folder);
    await using stream = await openStream(`${gateway.origin}/sse`, { headers: bearer(key) });
    const url = new URL((await stream.next())?.data ?? "", gateway.origin).href;
    const message = { method: "POST", headers: { ...postHeaders, ...bearer(key) } };
    const tried: readonly (readonly [code: string, request: RawRequest])[] = [
      ["parse_error", { ...message, body: "{nonsense" }],
      ["invalid_message", { ...message, body: { id: 1, method: "ping" } }],
      ["session_missing", { ...message, body: toolCall(1, "x") }],
      ["unsupported_media_type", { ...message, headers: { ...bearer(key), "content-type": "text/plain" }, body: "x" }],
      ["method_not_allowed", { headers: bearer(key) }],
      [
        "origin_not_allowed",
        { ...message, headers: { ...message.headers, origin: "https://evil.example" }, body: "{}" },
      ],
      ["host_not_allowed", { ...message, headers: { ...message.headers, host: "evil.example" }, body: "{}" }],
    ];
    for (const [, request] of tried) await exchange(url, request);
    const [, admin = ""] = await gateway.process.waitForLine(/(http:[^\s"]+)\/metrics/u);
    const metrics = (await exchange(`${admin}/metrics`)).text;
    await gateway.process.stop();
    const codes = tried.map(([code]) => code);
    expect(refusedLines(gateway).map(({ code }) => code)).toEqual(codes);
    expect((await refusedRows(folder)).map(({ gatewayCode }) => gatewayCode)).toEqual(codes);
    for (const code of codes)
      expect(metrics).toMatch(new RegExp(`headgate_refusals_total\\{route="[^"]*",code="${code}"\\} [1-9]`, "u"));
  });

  it("are seen on standard streams: lines that hold no message", async () => {
    using folder = temporaryFolder();
    const config = {
      log: { level: "info", format: "json" },
      record: { file: folder.at("traffic.sqlite") },
      upstream: { demo: true },
    };
    const file = folder.write("headgate.json", JSON.stringify(config));
    await using gateway = await startProcess([process.execPath, bin, "stdio", "--config", file]);
    gateway.stdin.write("this is no message\n");
    gateway.stdin.write("{nonsense\n");
    gateway.stdin.end();
    await gateway.exited;
    expect(gateway.output().match(/"code":"parse_error".*"msg":"request refused"/gu)).toHaveLength(2);
    const rows = await refusedRows(folder);
    expect(rows.map(({ kind, gatewayCode, route }) => [kind, gatewayCode, route])).toEqual([
      ["http", "parse_error", "default"],
      ["http", "parse_error", "default"],
    ]);
  });

  it("cannot flood log or recording", async () => {
    using folder = temporaryFolder();
    await using gateway = await start(folder);
    const sent = Array.from({ length: 60 }, async (_, index) => exchange(`${gateway.origin}/nothing/${index}`));
    await Promise.all(sent);
    await gateway.process.stop();
    const lines = jsonLines<{ readonly code?: string; readonly repeats?: number }>(gateway.process.output()).filter(
      ({ code }) => code === "not_found",
    );
    // Ten of each time window and the sum of the others; a busy machine may need a second window.
    expect(lines.reduce((sum, { repeats = 1 }) => sum + repeats, 0)).toBe(sent.length);
    expect(lines.length).toBeLessThan(sent.length / 2);
    const { output } = await headgate("traffic", "kind:http", "--json", "-s", folder.at("traffic.sqlite"));
    expect(jsonLines(output)).toHaveLength(lines.length);
  });
});

describe("the rows of headgate traffic", () => {
  it("have route, client, short name, outcome and the rule that allowed, within 80 columns", async () => {
    using folder = temporaryFolder();
    await using gateway = await start(folder);
    const session = await openSession(gateway.url, "2025-11-25", bearer(key));
    await session.post(toolCall(1, "fail"));
    await gateway.process.stop();
    expect(gateway.process.output()).toMatch(/"target":"fail".*"outcome":"tool_error"/u);
    const store = ["-s", folder.at("traffic.sqlite")];
    const wide = await headgate("traffic", "tool:fail", "principal:ann", ...store);
    expect(wide.output).toMatch(/default\s+ann by-hand\s+→ tools\/call fail\s+tool_error .* allow reading/u);
    expect((await headgate("traffic", "principal:bob", ...store)).output).toContain("no matching exchanges");
    process.env["COLUMNS"] = "80";
    try {
      const { output } = await headgate("traffic", "tool:fail", ...store);
      expect(output).toMatch(/ann by-hand .*fail .*tool_error .*allow read…/u);
      for (const line of output.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
    } finally {
      delete process.env["COLUMNS"];
    }
  });
});
