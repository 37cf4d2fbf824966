import type { Diagnostic } from "../../protocol/message.ts";

const table = {
  "id.superseded": ["warn", "/id", "another request of the same sender reused the id while this one was open"],
  "cancel.malformed": ["warn", "/params/requestId", "a cancel does not name a request"],
  "cancel.unknown": ["info", "/params/requestId", "a cancel names an unknown request"],
  "cancel.finished": ["info", "/params/requestId", "a cancel came after its request had ended"],
  "cancel.wrong-side": ["warn", "/params/requestId", "a cancel names a request that the other side sent"],
  "cancel.initialize": ["warn", "/params/requestId", "initialize must not be cancelled"],
  "cancel.task": ["warn", "/params/requestId", "a request that creates a task must be cancelled with tasks/cancel"],
  "progress.malformed": ["warn", "/params", "progress lacks a usable token or value"],
  "progress.token-reused": ["warn", "/params/_meta/progressToken", "a request reused a progress token still in use"],
  "subscription.unknown": [
    "warn",
    "/params/_meta/io.modelcontextprotocol~1subscriptionId",
    "a notification names a subscription that is not open",
  ],
  "mrtr.malformed": ["warn", "/params", "inputResponses or requestState has the wrong type"],
  "mrtr.unmatched": ["warn", "/params", "a retry matches no operation that waits for input"],
  "mrtr.ambiguous": ["warn", "/params", "a retry matches several operations that wait for input"],
  "mrtr.rounds": ["warn", "/params", "an operation exceeded the maximum number of rounds"],
  "pending.evicted": ["warn", undefined, "an open request was evicted for a newer one at the limit"],
  "pending.high": ["warn", undefined, "four fifths of all slots for open requests are in use"],
} as const satisfies Record<string, readonly [Diagnostic["severity"], string | undefined, string]>;

/** What correlation reports besides the semantic checks; nothing of it changes traffic. */
export type DiagnosticCode = keyof typeof table;

/** The diagnostics, made once: reporting one allocates nothing. */
export const diagnostics: Readonly<Record<DiagnosticCode, Diagnostic>> = toDiagnostics();

function toDiagnostics(): Record<DiagnosticCode, Diagnostic> {
  const entries = Object.entries(table).map(([code, [severity, path, message]]) => [
    code,
    { code, severity, message, ...(path === undefined ? {} : { path }) },
  ]);
  // Made from the rows of the table, so every code has one.
  return Object.fromEntries(entries) as Record<DiagnosticCode, Diagnostic>;
}
