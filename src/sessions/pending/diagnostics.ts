import type { Diagnostic } from "../../protocol/message.ts";

const table = {
  "id.superseded": ["warn", "/id", "another request of the same sender took the id of this one"],
  "cancel.malformed": ["warn", "/params/requestId", "a cancel does not name a request"],
  "cancel.unknown": ["info", "/params/requestId", "a cancel names no request that is known"],
  "cancel.finished": ["info", "/params/requestId", "a cancel came after its request had ended"],
  "cancel.wrong-side": ["warn", "/params/requestId", "a cancel names a request of the other side"],
  "cancel.initialize": ["warn", "/params/requestId", "initialize must not be cancelled"],
  "cancel.task": ["warn", "/params/requestId", "a request that makes a task is cancelled by tasks/cancel"],
  "progress.malformed": ["warn", "/params", "progress lacks a usable token or value"],
  "progress.token-reused": ["warn", "/params/_meta/progressToken", "a request took a token still in use"],
  "subscription.unknown": [
    "warn",
    "/params/_meta/io.modelcontextprotocol~1subscriptionId",
    "a notification names no subscription that is open",
  ],
  "mrtr.malformed": ["warn", "/params", "inputResponses or requestState has the wrong type"],
  "mrtr.unmatched": ["warn", "/params", "a retry fits no operation that waits for input"],
  "mrtr.ambiguous": ["warn", "/params", "a retry fits several operations that wait for input"],
  "mrtr.rounds": ["warn", "/params", "an operation went beyond the most rounds there may be"],
  "pending.evicted": ["warn", undefined, "an open exchange was given up for a newer one at the bound"],
  "pending.high": ["warn", undefined, "four fifths of all slots for open exchanges are taken"],
} as const satisfies Record<string, readonly [Diagnostic["severity"], string | undefined, string]>;

/** What correlation may have to say besides the semantic checks; none of it changes traffic by itself. */
export type CorrelationDiagnosticCode = keyof typeof table;

/** The diagnostics, made once: a flood of them costs nothing but the call that reports each. */
export const correlationDiagnostics: Readonly<Record<CorrelationDiagnosticCode, Diagnostic>> = toDiagnostics();

function toDiagnostics(): Record<CorrelationDiagnosticCode, Diagnostic> {
  const entries = Object.entries(table).map(([code, [severity, path, message]]) => [
    code,
    { code, severity, message, ...(path === undefined ? {} : { path }) },
  ]);
  // Made from the rows of the table, so every code has its diagnostic.
  return Object.fromEntries(entries) as Record<CorrelationDiagnosticCode, Diagnostic>;
}
