/** The MCP revisions. No other file compares dates: use the facts below. */
export type Revision = "2024-11-05" | "2025-03-26" | "2025-06-18" | "2025-11-25" | "2026-07-28";

/** Legacy revisions start with `initialize`; modern ones have metadata in every request. */
export type Era = "legacy" | "modern";

/** The kinds of content blocks in tool results and prompt messages. */
export type ContentKind = "text" | "image" | "resource" | "audio" | "resource_link";

/** What differs between revisions. */
export interface RevisionFacts {
  readonly era: Era;
  /** The HTTP transport: two endpoints, or one with JSON and event streams. */
  readonly httpTransport: "http+sse" | "streamable-http";
  /** Whether a body or line may be an array of messages. */
  readonly batching: boolean;
  /** Which HTTP requests must have `MCP-Protocol-Version`. */
  readonly versionHeader: "none" | "after-handshake" | "every-request";
  /** Whether `Mcp-Method`, `Mcp-Name` and `Mcp-Param-*` mirror parts of the body. */
  readonly mirroredHeaders: boolean;
  /** What identifies the session of a client on HTTP. */
  readonly sessions: "endpoint-uri" | "header" | "none";
  /** Whether GET opens a stream of server messages. */
  readonly getStream: boolean;
  /** Whether DELETE ends a session. */
  readonly deleteSession: boolean;
  /** Whether `Last-Event-ID` resumes a broken stream. */
  readonly resumption: boolean;
  /** Whether a stream may begin with an event with an id and empty data. */
  readonly primingEvent: boolean;
  /** Whether closing the response stream cancels the request. */
  readonly closeCancels: boolean;
  /** The status for a disallowed Origin; `open` if the revision does not define it. */
  readonly badOriginStatus: "open" | 403;
  /** The HTTP status for an unknown method. */
  readonly unknownMethodStatus: 200 | 404;
  /** Whether servers may send requests. */
  readonly serverRequests: boolean;
  /** How a server may ask the user for input. */
  readonly elicitation: "none" | "form" | "form+url" | "mrtr";
  /** Whether a result may ask for input, which the client sends in a retry. */
  readonly inputRequired: boolean;
  /** Whether the error -32042 asks the client to open URLs first. */
  readonly urlElicitationError: boolean;
  readonly tasks: "none" | "core" | "extension";
  /** Whether `server/discover` exists. */
  readonly discover: boolean;
  /** Whether change notifications come only on `subscriptions/listen` streams. */
  readonly listen: boolean;
  /** Who may report progress. */
  readonly progress: "both" | "server-to-client";
  /** Whether progress may have a message. */
  readonly progressMessage: boolean;
  /** Whether the log level belongs to the session or to each request. */
  readonly logging: "session" | "request";
  /** The scope in which a sender must not reuse an id. */
  readonly idUniqueness: "session" | "in-flight";
  /** Whether an error must have an id even if the request was unreadable. */
  readonly errorId: "required" | "optional";
  /** Whether `notifications/cancelled` must name its request. */
  readonly cancelledRequestId: "required" | "optional";
  readonly resourceNotFoundCode: -32002 | -32602;
  /** Whether results have `resultType`. */
  readonly resultType: boolean;
  /** Whether cacheable results have `ttlMs` and `cacheScope`. */
  readonly cacheHints: boolean;
  readonly structuredContent: "none" | "object" | "any";
  readonly outputSchema: "none" | "object" | "any";
  readonly contentKinds: readonly ContentKind[];
  /** Whether sampling has tools, tool results and several blocks in a message. */
  readonly samplingTools: boolean;
  /** Whether tools have annotations. */
  readonly toolAnnotations: boolean;
  /** Whether named items have a `title`, and items in lists and contents a `_meta`. */
  readonly titles: boolean;
  /** Whether named items have icons. */
  readonly icons: boolean;
  /** Whether completion requests may contain the arguments chosen so far. */
  readonly completionContext: boolean;
  /** The capabilities beyond those of the first revision. */
  readonly capabilities: readonly ("completions" | "elicitation" | "tasks" | "extensions")[];
  /** The role of an MCP server in OAuth. */
  readonly authorization: "none" | "authorization-server" | "resource-server";
}

const contents20241105 = ["text", "image", "resource"] as const;
const contents20250326 = [...contents20241105, "audio"] as const;
const contents20250618 = [...contents20250326, "resource_link"] as const;

const first: RevisionFacts = {
  era: "legacy",
  httpTransport: "http+sse",
  batching: false,
  versionHeader: "none",
  mirroredHeaders: false,
  sessions: "endpoint-uri",
  getStream: true,
  deleteSession: false,
  resumption: false,
  primingEvent: false,
  closeCancels: false,
  badOriginStatus: "open",
  unknownMethodStatus: 200,
  serverRequests: true,
  elicitation: "none",
  inputRequired: false,
  urlElicitationError: false,
  tasks: "none",
  discover: false,
  listen: false,
  progress: "both",
  progressMessage: false,
  logging: "session",
  idUniqueness: "session",
  errorId: "required",
  cancelledRequestId: "required",
  resourceNotFoundCode: -32002,
  resultType: false,
  cacheHints: false,
  structuredContent: "none",
  outputSchema: "none",
  contentKinds: contents20241105,
  samplingTools: false,
  toolAnnotations: false,
  titles: false,
  icons: false,
  completionContext: false,
  capabilities: [],
  authorization: "none",
};

const second: RevisionFacts = {
  ...first,
  httpTransport: "streamable-http",
  batching: true,
  sessions: "header",
  deleteSession: true,
  resumption: true,
  progressMessage: true,
  contentKinds: contents20250326,
  toolAnnotations: true,
  capabilities: ["completions"],
  authorization: "authorization-server",
};

const third: RevisionFacts = {
  ...second,
  batching: false,
  versionHeader: "after-handshake",
  elicitation: "form",
  structuredContent: "object",
  outputSchema: "object",
  contentKinds: contents20250618,
  titles: true,
  completionContext: true,
  capabilities: ["completions", "elicitation"],
  authorization: "resource-server",
};

const fourth: RevisionFacts = {
  ...third,
  primingEvent: true,
  badOriginStatus: 403,
  elicitation: "form+url",
  urlElicitationError: true,
  tasks: "core",
  errorId: "optional",
  cancelledRequestId: "optional",
  samplingTools: true,
  icons: true,
  capabilities: ["completions", "elicitation", "tasks"],
};

const fifth: RevisionFacts = {
  ...fourth,
  era: "modern",
  versionHeader: "every-request",
  mirroredHeaders: true,
  sessions: "none",
  getStream: false,
  deleteSession: false,
  resumption: false,
  primingEvent: false,
  closeCancels: true,
  unknownMethodStatus: 404,
  serverRequests: false,
  elicitation: "mrtr",
  inputRequired: true,
  urlElicitationError: false,
  tasks: "extension",
  discover: true,
  listen: true,
  progress: "server-to-client",
  logging: "request",
  idUniqueness: "in-flight",
  cancelledRequestId: "required",
  resourceNotFoundCode: -32602,
  resultType: true,
  cacheHints: true,
  structuredContent: "any",
  outputSchema: "any",
  capabilities: ["completions", "elicitation", "extensions"],
};

/** The facts of each revision. */
export const revisions: Readonly<Record<Revision, RevisionFacts>> = {
  "2024-11-05": first,
  "2025-03-26": second,
  "2025-06-18": third,
  "2025-11-25": fourth,
  "2026-07-28": fifth,
};

/** All revisions, oldest first. */
export const revisionNames: readonly Revision[] = [
  "2024-11-05",
  "2025-03-26",
  "2025-06-18",
  "2025-11-25",
  "2026-07-28",
];

/** The newest revision that `initialize` can negotiate. */
export const newestLegacy: Revision = "2025-11-25";

/** The newest revision. */
export const newestModern: Revision = "2026-07-28";

/** The revision of a request without version header and session (MCP 2025-06-18, Transports). */
export const revisionWithoutHeader: Revision = "2025-03-26";

/** The first modern revision; every later date is modern too. */
const firstModern: Revision = "2026-07-28";

const isoDate = /^\d{4}-\d{2}-\d{2}$/;

/** A revision, or why the text does not name one. */
export type ParsedRevision =
  | { readonly ok: true; readonly revision: Revision }
  | {
      readonly ok: false;
      /** `unknown` is a date without a revision, `malformed` is not a date. */
      readonly reason: "unknown" | "malformed";
      readonly text: string;
    };

/** Reads a revision from its exact text; never falls back to a default. */
export function parseRevision(text: string): ParsedRevision {
  const revision = revisionNames.find((name) => name === text);
  if (revision !== undefined) return { ok: true, revision };
  return { ok: false, reason: isoDate.test(text) ? "unknown" : "malformed", text };
}

/** Whether a string names a modern revision, known to us or later. */
export function isModernRevision(text: string): boolean {
  return isoDate.test(text) && text >= firstModern;
}

/** The modern revisions among `supported`, newest first. */
export function modernOf(supported: readonly Revision[]): readonly Revision[] {
  return newestFirst(supported).filter((revision) => revisions[revision].era === "modern");
}

/** The legacy revisions among `supported`, newest first. A client offers the first in `initialize`. */
export function legacyOf(supported: readonly Revision[]): readonly Revision[] {
  return newestFirst(supported).filter((revision) => revisions[revision].era === "legacy");
}

/** The outcome of a version negotiation. */
export type Negotiation =
  | { readonly ok: true; readonly revision: Revision; readonly isCounterOffer: boolean }
  | { readonly ok: false; readonly requested: string; readonly supported: readonly Revision[] };

/**
 * The server side of `initialize`: the version of the client if supported, otherwise our newest legacy one as a counter
 * offer. Modern revisions are never negotiated this way (MCP 2025-11-25, Lifecycle; MCP 2026-07-28 has no handshake).
 *
 * @example
 * negotiateRevision("2031-01-01", revisionNames); // { ok: true, revision: "2025-11-25", isCounterOffer: true }
 */
export function negotiateRevision(requested: string, supported: readonly Revision[]): Negotiation {
  const ours = legacyOf(supported);
  const exact = ours.find((revision) => revision === requested);
  if (exact !== undefined) return { ok: true, revision: exact, isCounterOffer: false };
  const [newest] = ours;
  if (newest !== undefined) return { ok: true, revision: newest, isCounterOffer: true };
  return { ok: false, requested, supported: newestFirst(supported) };
}

/** The client side of `initialize`: the version that the server chose, if supported. */
export function acceptServerRevision(answered: string, supported: readonly Revision[]): Negotiation {
  const agreed = legacyOf(supported).find((revision) => revision === answered);
  if (agreed !== undefined) return { ok: true, revision: agreed, isCounterOffer: false };
  return { ok: false, requested: answered, supported: newestFirst(supported) };
}

/** The newest modern revision that both sides support; `theirs` comes from `server/discover` or error -32022. */
export function newestCommonRevision(theirs: readonly string[], supported: readonly Revision[]): Revision | undefined {
  return modernOf(supported).find((revision) => theirs.includes(revision));
}

function newestFirst(supported: readonly Revision[]): readonly Revision[] {
  return revisionNames.toReversed().filter((revision) => supported.includes(revision));
}
