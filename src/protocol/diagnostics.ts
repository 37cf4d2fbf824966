import type { FailureReason } from "./message.ts";

/** A finding about a message. A diagnostic alone never changes traffic. */
export interface Diagnostic {
  readonly code: DiagnosticCode;
  readonly severity: Severity;
  /** JSON Pointer of the place, if there is one. */
  readonly path?: string;
  readonly message: string;
  readonly data?: unknown;
}

/** How bad a finding is. */
export type Severity = "info" | "warn" | "error";

/** Every finding besides those of the parser and of the schemas: severity, place, and what it means. */
const table = {
  "id.in-flight": ["error", "/id", "a request has the id of another one that its sender has in flight"],
  "id.superseded": ["warn", "/id", "another request of the same sender reused the id while this one was open"],
  "id.reused": ["warn", "/id", "a request has an id that its sender used before in this session"],
  "response.orphan": ["warn", "/id", "a response names a request that does not exist"],
  "response.late": ["warn", "/id", "a response came after its request was cancelled or timed out"],
  "response.duplicate": ["warn", "/id", "a request was answered twice"],
  "response.unaddressed": ["warn", undefined, "an error has no id: its sender could not read the request"],
  "cancel.malformed": ["warn", "/params/requestId", "a cancel does not name a request"],
  "cancel.unknown": ["info", "/params/requestId", "a cancel names an unknown request"],
  "cancel.finished": ["info", "/params/requestId", "a cancel came after its request had ended"],
  "cancel.wrong-side": ["warn", "/params/requestId", "a cancel names a request that the other side sent"],
  "cancel.initialize": ["warn", "/params/requestId", "initialize must not be cancelled"],
  "cancel.task": ["warn", "/params/requestId", "a request that creates a task must be cancelled with tasks/cancel"],
  "progress.malformed": ["warn", "/params", "progress lacks a usable token or value"],
  "progress.unknown-token": ["warn", "/params/progressToken", "no request has the token of this progress"],
  "progress.after-end": ["warn", "/params/progressToken", "progress came after its request had ended"],
  "progress.not-rising": ["warn", "/params/progress", "progress did not rise"],
  "progress.token-reused": ["warn", "/params/_meta/progressToken", "a request reused a progress token still in use"],
  "subscription.unknown": [
    "warn",
    "/params/_meta/io.modelcontextprotocol~1subscriptionId",
    "a notification names a subscription that is not open",
  ],
  "notification.unheard": [
    "info",
    "/method",
    "a notification was dropped: no client takes it, because of its revision or because none has asked for it",
  ],
  "mrtr.malformed": ["warn", "/params", "inputResponses or requestState has the wrong type"],
  "mrtr.unmatched": ["warn", "/params", "a retry matches no operation that waits for input"],
  "mrtr.ambiguous": ["warn", "/params", "a retry matches several operations that wait for input"],
  "mrtr.rounds": ["warn", "/params", "an operation exceeded the maximum number of rounds"],
  "pending.evicted": ["warn", undefined, "an open request was evicted for a newer one at the limit"],
  "pending.high": ["warn", undefined, "four fifths of all slots for open requests are in use"],
  "bytes.exceeded": [
    "warn",
    undefined,
    "a message was refused, or an answer dropped, because its caller has too many bytes in the gateway",
  ],
  "event.not-json": ["warn", undefined, "an event, line or body holds no message"],
  "revision.unknown": ["warn", undefined, "a message names a revision that is not known; only its envelope is checked"],
  "revision.mismatch": [
    "warn",
    undefined,
    "the header MCP-Protocol-Version differs from the revision that the session agreed on",
  ],
  "direction.response": ["warn", undefined, "clients do not send responses in this revision"],
  "direction.request": ["warn", "/method", "servers do not send requests in this revision"],
  "method.unknown": ["warn", "/method", "the revision has no such method"],
  "method.wrong-direction": ["warn", "/method", "the method must not be sent in this direction"],
  "method.wrong-kind": ["warn", "/method", "a request was sent as a notification, or the other way round"],
  "metadata.type": ["warn", undefined, "an optional member has the wrong type and counts as absent"],
  "header.mismatch": ["error", undefined, "a mirrored header is missing, malformed or differs from the body"],
  "capability.missing": ["error", undefined, "the receiver did not declare the capability that a request needs"],
  "input.not-allowed": ["error", "/result/resultType", "the result of this method must not ask for input"],
  "input.empty": ["error", "/result", "a result asks for input and has neither inputRequests nor requestState"],
  "input.method": ["error", undefined, "an input request has an unknown method"],
  "input.capability": ["error", undefined, "the client did not declare the capability for an input request"],
} as const satisfies Record<string, readonly [Severity, string | undefined, string]>;

/** The code of a finding in the table. */
export type FindingCode = keyof typeof table;

/** The code of any diagnostic: a finding, why a message is invalid, or the schema rule that it breaks. */
export type DiagnosticCode = FindingCode | FailureReason | `schema.${string}`;

/** Each finding of the table as a diagnostic, made once: reporting one allocates nothing. */
export const diagnosticTable: Readonly<Record<FindingCode, Diagnostic>> = toDiagnostics();

/** The diagnostic of a finding with its own words; severity and place come from the table unless given. */
export function createDiagnostic(
  code: FindingCode,
  message: string,
  details: Partial<Pick<Diagnostic, "path" | "data">> = {},
): Diagnostic {
  return { ...diagnosticTable[code], message, ...details };
}

function toDiagnostics(): Record<FindingCode, Diagnostic> {
  const entries = Object.entries(table).map(([code, [severity, path, message]]) => [
    code,
    { code, severity, message, ...(path === undefined ? {} : { path }) },
  ]);
  // Made from the rows of the table, so every code has one.
  return Object.fromEntries(entries) as Record<FindingCode, Diagnostic>;
}
