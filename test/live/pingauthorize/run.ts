// Asks a live PingAuthorize what the engine relies on, and says what it found:
//   PAZ_LIVE_URL=https://pdp.example PAZ_LIVE_SECRET=… node test/live/pingauthorize/run.ts
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";

import { systemClock, systemTimer } from "../../../src/core/exchange.ts";
import type { HttpPolicyEngine, HttpRequestFacts, SidebandLogEntry } from "../../../src/policy/sideband/contract.ts";
import { createSidebandEngine } from "../../../src/policy/sideband/engine.ts";
import { parseSidebandSettings } from "../../../src/policy/sideband/settings.ts";

const {
  PAZ_LIVE_URL,
  PAZ_LIVE_SECRET,
  PAZ_LIVE_HEADER = "CLIENT-TOKEN",
  PAZ_LIVE_INSECURE,
  PAZ_LIVE_CA_FILE,
} = process.env;
if (PAZ_LIVE_URL === undefined || PAZ_LIVE_SECRET === undefined) {
  console.error("Set PAZ_LIVE_URL and PAZ_LIVE_SECRET; see test/live/pingauthorize/README.md.");
  process.exit(2);
}

const logs: SidebandLogEntry[] = [];
const engineWith = (settings: Readonly<Record<string, unknown>> = {}): HttpPolicyEngine =>
  createSidebandEngine(
    parseSidebandSettings({
      service_url: PAZ_LIVE_URL,
      shared_secret: PAZ_LIVE_SECRET,
      secret_header_name: PAZ_LIVE_HEADER,
      verify_service_cert: PAZ_LIVE_INSECURE !== "1",
      circuit_breaker_enabled: false,
      ...settings,
    }),
    {
      clock: systemClock,
      setTimer: systemTimer,
      log: (entry) => void logs.push(entry),
      ...(PAZ_LIVE_CA_FILE === undefined ? {} : { tls: { ca: readFileSync(PAZ_LIVE_CA_FILE, "utf8") } }),
    },
  );

/** The facts that lead to one of the example payloads. */
function factsOf(name: string): HttpRequestFacts {
  const text = readFileSync(join(import.meta.dirname, "payloads", `${name}.json`), "utf8");
  const payload = JSON.parse(text) as Record<string, string> & { headers: readonly Record<string, string>[] };
  const url = new URL(payload["url"] ?? "");
  return {
    clientAddress: payload["source_ip"] ?? "",
    clientPort: Number(payload["source_port"]),
    method: payload["method"] ?? "",
    scheme: "https",
    host: url.hostname,
    port: 443,
    path: url.pathname,
    query: url.search.slice(1),
    headers: Object.assign({}, ...payload.headers) as Record<string, string>,
    body: Buffer.from(payload["body"] ?? ""),
    httpVersion: payload["http_version"] ?? "",
  };
}

/** Whether the policy decided at all; which way is the policy's own affair. */
async function decides(engine: HttpPolicyEngine, facts: HttpRequestFacts): Promise<string> {
  const outcome = await engine.evaluateRequest(facts);
  if (outcome.action === "continue") {
    const state = outcome.store?.paz_state === undefined ? "no state" : "a state";
    return `allowed with ${state} and ${outcome.changes.length} changes`;
  }
  assert.equal(outcome.refusal.reason, "policy", `${outcome.refusal.message} ${JSON.stringify(logs.at(-1))}`);
  return `denied with ${outcome.answer.status}`;
}

const checks: readonly (readonly [what: string, check: () => Promise<string>])[] = [
  ["a plain request is decided", () => decides(engineWith(), factsOf("request"))],
  ["an HTTP/2 client is decided about", () => decides(engineWith(), { ...factsOf("request"), httpVersion: 2 })],
  [
    "a request with MCP fields is decided",
    () => decides(engineWith({ enable_mcp: true, extract_headers: ["authorization"] }), factsOf("request-mcp")),
  ],
  [
    "a wrong secret is refused",
    async () => {
      const outcome = await engineWith({
        shared_secret: `${PAZ_LIVE_SECRET}-wrong`,
        fail_open: true,
      }).evaluateRequest(factsOf("request"));
      assert.equal(outcome.action === "answer" ? outcome.refusal.reason : outcome.action, "rejected");
      return "yes";
    },
  ],
  [
    "a response is decided",
    async () => {
      const engine = engineWith();
      const first = await engine.evaluateRequest(factsOf("request"));
      if (first.action === "answer" || first.store === undefined) return "not asked: the request was denied";
      const outcome = await engine.evaluateResponse(
        {
          status: 200,
          headers: { "content-type": "application/json" },
          body: Buffer.from('{"owner":"ada"}'),
        },
        first.store,
      );
      assert.equal(outcome.action, "answer", JSON.stringify(logs.at(-1)));
      if (outcome.action !== "answer") return "";
      assert.ok(outcome.refusal === undefined || outcome.refusal.reason === "policy", JSON.stringify(logs.at(-1)));
      return `status ${outcome.answer.status}, body ${outcome.isOriginalBody ? "unchanged" : "changed"}`;
    },
  ],
];

let failed = 0;
for (const [what, check] of checks) {
  try {
    console.log(`ok   ${what}: ${await check()}`);
  } catch (error) {
    failed++;
    console.log(`FAIL ${what}: ${error instanceof Error ? error.message : String(error)}`);
  }
}
process.exitCode = failed === 0 ? 0 : 1;
