import type { ShowForLog } from "./debug-text.ts";
import type { PhaseLog } from "./log.ts";
import type { McpSummary } from "./mcp-facts.ts";
import type { Instruments } from "./metrics.ts";
import type { QuerySideband } from "./pdp-call.ts";
import { formatRefusalAnswer } from "./refusal-answer.ts";
import type { JsonRpcForm, RefusalFacts, RefusalAnswer } from "./refusal-answer.ts";
import type { SidebandSettings } from "./settings.ts";

/** What a phase is made of. */
export interface PhaseDeps {
  readonly settings: SidebandSettings;
  readonly query: QuerySideband;
  readonly log: PhaseLog;
  readonly instruments: Instruments;
  readonly show: ShowForLog;
  readonly knownMethods: ReadonlySet<string>;
  /** Members that answers lack and that was warned of already. */
  readonly warnedOf: Set<string>;
}

/** The JSON-RPC form, where the settings want it and the request is MCP (PA-176). */
export function jsonRpcForm(
  settings: SidebandSettings,
  mcp: Pick<McpSummary, "id"> | undefined,
): JsonRpcForm | undefined {
  return settings.enable_mcp && settings.mcp_jsonrpc_errors && mcp !== undefined ? { id: mcp.id } : undefined;
}

/** Writes a refusal in its form, and counts it. */
export function countedRefusal(
  parts: PhaseDeps,
  facts: RefusalFacts,
  mcp: McpSummary | undefined,
): RefusalAnswer {
  if (mcp !== undefined) parts.instruments.mcpDenied(mcp, facts.reason);
  return formatRefusalAnswer(facts, jsonRpcForm(parts.settings, mcp));
}

/** Says what is about to be sent: always that, and with debug logging what (PA-134, PA-215). */
export function logQuery(parts: PhaseDeps, path: string, text: string): void {
  const { settings, log, show } = parts;
  log("debug", path.endsWith("request") ? "Sending sideband request" : "Sending sideband response", {
    path,
    ...(settings.enable_debug_logging ? { payload: show(text) } : {}),
  });
}

/** Shows an answer that came, with debug logging only. */
export function logAnswer({ settings, log, show }: PhaseDeps, body: Buffer): void {
  if (settings.enable_debug_logging) log("debug", "Sideband answer", { answer: show(body.toString("utf8")) });
}

/** Warns of members that an answer lacks, of each once: a decision point that leaves one out does so always (PA-074). */
export function warnAboutMissing({ log, warnedOf }: PhaseDeps, missing: readonly string[]): void {
  for (const name of missing) {
    if (warnedOf.has(name)) continue;
    warnedOf.add(name);
    log("warn", "Policy answer", { warning: `the answer has no ${name}: taken as unchanged` });
  }
}
