import * as z from "zod";

import { anonymous, systemClock, type Principal } from "../src/core/exchange.ts";
import { InspectedMessage } from "../src/core/interceptors/inspected-message.ts";
import { createCelProvider } from "../src/policy/cel/provider.ts";
import { rulesFields } from "../src/policy/cel/config.ts";
import { createDetector } from "../src/redact/detectors/detector.ts";
import { personalPatterns } from "../src/redact/detectors/personal-data.ts";
import { secretPatterns } from "../src/redact/detectors/secrets.ts";
import type { PolicyCall, PolicyProvider } from "../src/policy/provider/provider.ts";
import { exchangeOf, messageOf } from "./bare-exchange.ts";
import { measure, median } from "./measure.ts";
import type { BenchRow } from "./row.ts";

/** Decisions a round. */
const count = 20_000;
const lists = 500;

const schema = z.strictObject(rulesFields);

/** Ten rules of which the last one decides; half of them look into arguments or claims. */
const tenRules = schema.parse({
  rules: [
    { id: "r1", deny: 'mcp.tool.startsWith("delete_") && !("admin" in principal.scopes)' },
    { id: "r2", deny: 'mcp.tool in ["drop", "truncate", "shutdown"]' },
    { id: "r3", deny: 'mcp.tool == "transfer" && mcp.arguments.amount > 10000' },
    { id: "r4", deny: "principal.claims.?suspended.orValue(false) == true" },
    { id: "r5", deny: 'mcp.resource.startsWith("file:///etc/")' },
    { id: "r6", deny: 'has(mcp.arguments.path) && mcp.arguments.path.contains("..")' },
    { id: "r7", allow: '"admin" in principal.scopes' },
    { id: "r8", allow: 'mcp.prompt != ""' },
    { id: "r9", allow: 'mcp.tool.endsWith("_preview") && principal.kind == "token"' },
    { id: "r10", allow: 'mcp.tool == "search" && mcp.arguments.limit <= 100 && "read" in principal.scopes' },
  ],
  results: [
    { id: "a1", deny: 'mcp.tool == "dump"' },
    { id: "a2", deny: 'mcp.tool.startsWith("internal_")' },
    {
      id: "a3",
      apply: 'mcp.tool == "who" && !("hr" in principal.scopes)',
      redact: ["/structuredContent/salary"],
    },
    { id: "a4", deny: 'mcp.server == "billing" && principal.kind == "anonymous"' },
    { id: "a5", apply: 'mcp.tool == "log"', detect: { secrets: "redact" } },
    { id: "a6", deny: 'mcp.prompt == "secret"' },
    { id: "a7", deny: 'mcp.resource.startsWith("file:///etc/")' },
    { id: "a8", deny: "result.?structuredContent.?rows.orValue(0) > 10000" },
    { id: "a9", deny: 'mcp.tool == "transfer" && result.isError' },
    { id: "a10", deny: 'principal.id == "nobody"' },
  ],
  lists: [
    { id: "l1", deny: 'entry.name.startsWith("admin_") && !("admin" in principal.scopes)' },
    {
      id: "l2",
      deny: 'entry.?annotations.?destructiveHint.orValue(false) == true && !("write" in principal.scopes)',
    },
    { id: "l3", deny: 'entry.kind == "resource" && entry.uri.startsWith("file:///etc/")' },
    { id: "l4", allow: '"read" in principal.scopes' },
  ],
});

const byName = schema.parse({ tools: { allow: ["search", "tool_*"], deny: ["tool_1?"] } });

const principal: Principal = {
  ...anonymous,
  id: "ann",
  kind: "token",
  scopes: new Set(["read"]),
  claims: { sub: "ann", team: "blue", roles: ["dev"] },
};

const call: PolicyCall = { memory: undefined, signal: new AbortController().signal };

/**
 * What decisions by rules cost by themselves, explanations included. Processor time: a decision is too short for its
 * wall time to tell anything on a machine that has other work.
 */
export async function run(): Promise<BenchRow[]> {
  const provider = createCelProvider(tenRules, { clock: systemClock });
  const names = createCelProvider(byName, { clock: systemClock });
  const params = { name: "search", arguments: { query: "x".repeat(200), limit: 10, tags: ["a", "b"] } };
  const request = messageOf({ id: 1, method: "tools/call", params });
  const answer = messageOf({ id: 1, result: { content: [{ type: "text", text: "x".repeat(800) }] } });
  if (request.kind !== "request") throw new Error("the request is none");
  const exchange = exchangeOf(request, principal);
  const tools = Array.from({ length: 50 }, (_, index) => ({
    name: `tool_${index}`,
    value: { name: `tool_${index}`, annotations: { destructiveHint: index % 5 === 0 } },
  }));
  const list = exchangeOf(messageOf({ id: 1, method: "tools/list" }), principal);
  const text = "The quick brown fox jumps over the lazy dog, and 12 of 345 do. ".repeat(16);
  const detect = createDetector([...secretPatterns, ...personalPatterns]);

  const repeat = (times: number, work: () => unknown) => () => {
    for (let index = 0; index < times; index++) work();
  };
  const filter = (from: PolicyProvider) => () =>
    from.filterList?.({ subject: InspectedMessage.of(list), kind: "tool", entries: tools }, call);
  const costs = await measure([
    {
      name: "request",
      run: repeat(count, () => provider.evaluateRequest(InspectedMessage.of(exchange), call)),
    },
    {
      name: "response",
      run: repeat(count, () => provider.evaluateResponse(InspectedMessage.answering(exchange, request, answer), call)),
    },
    { name: "names", run: repeat(count, () => names.evaluateRequest(InspectedMessage.of(exchange), call)) },
    { name: "list", run: repeat(lists, filter(provider)) },
    { name: "list by names", run: repeat(lists, filter(names)) },
    { name: "detect", run: repeat(count / 10, () => detect(text)) },
  ]);
  const micros = (name: string, times: number): number => median(costs.get(name)?.cpuMicros ?? []) / times;
  return [
    {
      name: "a request by ten rules, the last decides",
      value: micros("request", count),
      unit: "µs",
      threshold: { max: 5 },
    },
    {
      name: "its answer by ten rules, none decides",
      value: micros("response", count),
      unit: "µs",
      threshold: { max: 5 },
    },
    { name: "a request by lists of names", value: micros("names", count), unit: "µs", threshold: { max: 2 } },
    {
      name: "a list of 50 tools by four rules",
      value: micros("list", lists),
      unit: "µs",
      threshold: { max: 100 },
    },
    {
      name: "a list of 50 tools by lists of names",
      value: micros("list by names", lists),
      unit: "µs",
      threshold: { max: 100 },
    },
    {
      name: "1 KB of text for secrets and personal data",
      value: micros("detect", count / 10),
      unit: "µs",
      threshold: { max: 100 },
    },
  ];
}
