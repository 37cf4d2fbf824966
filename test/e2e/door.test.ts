import { describe, expect, it } from "vitest";

import type { ExchangeRecord } from "../../src/recorder/contract.ts";
import { type Folder, headgate, temporaryFolder } from "../support/capture-file.ts";
import { type RunningGateway, startGateway } from "../support/gateway.ts";
import { handshake, openSession, toolCall } from "../support/legacy-session.ts";
import { exchange, postHeaders, type RawRequest } from "../support/raw-http.ts";
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

async function start(folder: Folder): Promise<RunningGateway> {
  const config = {
    listen: { port: 0 },
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

describe("requests that are refused at the door", () => {
  it("are logged, counted and recorded, and a foreign Host is told the setting", async () => {
    using folder = temporaryFolder();
    await using gateway = await start(folder);
    const answers = [];
    for (const [, path, request] of refused) answers.push(await exchange(`${gateway.origin}${path}`, request));
    expect(answers[0]?.text).toContain("`listen.allowedHosts`");
    const [, admin = ""] = await gateway.process.waitForLine(/(http:[^\s"]+)\/metrics/u);
    const metrics = (await exchange(`${admin}/metrics`)).text;
    await gateway.process.stop();
    const lines = jsonLines<Record<string, unknown>>(gateway.process.output()).filter(
      ({ msg }) => msg === "request refused",
    );
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

  it("cannot flood log or recording", async () => {
    using folder = temporaryFolder();
    await using gateway = await start(folder);
    for (let count = 0; count < 60; count++) await exchange(`${gateway.origin}/nothing/${count}`);
    await gateway.process.waitForLine(/"repeats":50,"msg":"more requests refused alike"/u, 30_000);
    await gateway.process.stop();
    const { output } = await headgate("traffic", "kind:http", "--json", "-s", folder.at("traffic.sqlite"));
    expect(jsonLines(output)).toHaveLength(11);
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
      expect(output).toMatch(/ann by-hand .*fail .*tool_error .*allow readi/u);
      for (const line of output.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
    } finally {
      delete process.env["COLUMNS"];
    }
  });
});
