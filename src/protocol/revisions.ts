/** The five MCP revisions. Dates are compared nowhere else: ask the table below. */
export type Revision = "2024-11-05" | "2025-03-26" | "2025-06-18" | "2025-11-25" | "2026-07-28";

/** Legacy revisions open with `initialize`; modern ones carry their metadata in every request. */
export type Era = "legacy" | "modern";

/** Kinds of content blocks that tool results and prompt messages may hold. */
export type ContentKind = "text" | "image" | "resource" | "audio" | "resource_link";

/** Everything in which one revision differs from another. */
export interface RevisionFacts {
  readonly era: Era;
  /** How HTTP carries it: two endpoints, or one endpoint with JSON and event streams. */
  readonly httpTransport: "http+sse" | "streamable-http";
  /** Whether an array of messages is a body or line of its own. */
  readonly batching: boolean;
  /** Where `MCP-Protocol-Version` must stand on HTTP. */
  readonly versionHeader: "none" | "after-handshake" | "every-request";
  /** Whether `Mcp-Method`, `Mcp-Name` and `Mcp-Param-*` repeat parts of the body. */
  readonly mirroredHeaders: boolean;
  /** What ties the messages of one client together on HTTP. */
  readonly sessions: "endpoint-uri" | "header" | "none";
  /** Whether GET opens a stream of server messages. */
  readonly getStream: boolean;
  /** Whether DELETE ends a session. */
  readonly deleteSession: boolean;
  /** Whether `Last-Event-ID` resumes a broken stream. */
  readonly resumption: boolean;
  /** Whether a stream may begin with an event that has an id and empty data. */
  readonly primingEvent: boolean;
  /** Whether closing the response stream cancels the request. */
  readonly closeCancels: boolean;
  /** What a refused Origin is answered with; `open` where the revision leaves it to the server. */
  readonly badOriginStatus: "open" | 403;
  /** The HTTP status of an answer that says the method is unknown. */
  readonly unknownMethodStatus: 200 | 404;
  /** Whether servers send requests, and clients responses. */
  readonly serverRequests: boolean;
  /** What a server may ask of the user, and how the question travels. */
  readonly elicitation: "none" | "form" | "form+url" | "mrtr";
  /** Whether a result may ask for input and the client repeats the request with the answers. */
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
  /** Whether progress may come with a text. */
  readonly progressMessage: boolean;
  /** Whether the log level belongs to the session or to each request. */
  readonly logging: "session" | "request";
  /** Within what an id must not come twice from one sender. */
  readonly idUniqueness: "session" | "in-flight";
  /** Whether an error that answers an unreadable request goes without an id, or must have one. */
  readonly errorId: "required" | "optional";
  /** Whether `notifications/cancelled` must name its request. */
  readonly cancelledRequestId: "required" | "optional";
  readonly resourceNotFoundCode: -32002 | -32602;
  /** Whether every result says what kind it is in `resultType`. */
  readonly resultType: boolean;
  /** Whether the six cacheable results carry `ttlMs` and `cacheScope`. */
  readonly cacheHints: boolean;
  readonly structuredContent: "none" | "object" | "any";
  readonly outputSchema: "none" | "object" | "any";
  readonly contentKinds: readonly ContentKind[];
  /** Whether sampling knows tools, tool results and several blocks a message. */
  readonly samplingTools: boolean;
  /** Whether tools carry hints about what they do. */
  readonly toolAnnotations: boolean;
  /** Whether named things have a `title`, and things in lists and contents a `_meta`. */
  readonly titles: boolean;
  /** Whether named things have icons. */
  readonly icons: boolean;
  /** Whether completion requests may say which arguments are already chosen. */
  readonly completionContext: boolean;
  /** What the capabilities may declare beyond those of the first revision. */
  readonly capabilities: readonly ("completions" | "elicitation" | "tasks" | "extensions")[];
  /** The part of an MCP server in OAuth, where the revision knows authorization. */
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

/** The one table of what each revision has and does; each row says only how it differs from the one before. */
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

/** The newest revision that `initialize` can agree on. */
export const newestLegacy: Revision = "2025-11-25";

/** The newest revision of all. */
export const newestModern: Revision = "2026-07-28";

/** What a client is taken to speak that sends no version header and has no session (MCP 2025-06-18, Transports). */
export const revisionWithoutHeader: Revision = "2025-03-26";

/** The first revision without a handshake; every later date is modern too. */
const firstModern: Revision = "2026-07-28";

const isoDate = /^\d{4}-\d{2}-\d{2}$/;

/** A text that should name a revision: the revision, or what is wrong with it. */
export type ParsedRevision =
  | { readonly ok: true; readonly revision: Revision }
  | {
      readonly ok: false;
      /** `unknown` is a date that is none of ours, `malformed` not even a date. */
      readonly reason: "unknown" | "malformed";
      readonly text: string;
    };

/** Reads a revision from its exact text form; anything else is an error value, never a default. */
export function parseRevision(text: string): ParsedRevision {
  const revision = revisionNames.find((name) => name === text);
  if (revision !== undefined) return { ok: true, revision };
  return { ok: false, reason: isoDate.test(text) ? "unknown" : "malformed", text };
}

/** Whether a text names a revision of the modern era, be it one of ours or a later date. */
export function isModernRevision(text: string): boolean {
  return isoDate.test(text) && text >= firstModern;
}

/** The modern ones among some revisions, newest first. */
export function modernOf(supported: readonly Revision[]): readonly Revision[] {
  return newestFirst(supported).filter((revision) => revisions[revision].era === "modern");
}

/** The legacy ones among some revisions, newest first; the first is what a client offers in `initialize`. */
export function legacyOf(supported: readonly Revision[]): readonly Revision[] {
  return newestFirst(supported).filter((revision) => revisions[revision].era === "legacy");
}

/** What a handshake led to. */
export type Negotiation =
  | { readonly ok: true; readonly revision: Revision; readonly isCounterOffer: boolean }
  | { readonly ok: false; readonly requested: string; readonly supported: readonly Revision[] };

/**
 * The server's half of `initialize`: the client's version if we support it, else our newest legacy one as a counter
 * offer. A modern revision is never agreed on this way (MCP 2025-11-25, Lifecycle; MCP 2026-07-28 has no handshake).
 *
 * @example
 * negotiate("2031-01-01", revisionNames); // { ok: true, revision: "2025-11-25", isCounterOffer: true }
 */
export function negotiateRevision(requested: string, supported: readonly Revision[]): Negotiation {
  const ours = legacyOf(supported);
  const exact = ours.find((revision) => revision === requested);
  if (exact !== undefined) return { ok: true, revision: exact, isCounterOffer: false };
  const [newest] = ours;
  if (newest !== undefined) return { ok: true, revision: newest, isCounterOffer: true };
  return { ok: false, requested, supported: newestFirst(supported) };
}

/** The client's half of `initialize`: the version the server answered with, if we support it too. */
export function acceptServerRevision(answered: string, supported: readonly Revision[]): Negotiation {
  const agreed = legacyOf(supported).find((revision) => revision === answered);
  if (agreed !== undefined) return { ok: true, revision: agreed, isCounterOffer: false };
  return { ok: false, requested: answered, supported: newestFirst(supported) };
}

/** The newest modern revision that both sides know, from the list in `server/discover` or in error -32022. */
export function newestCommonRevision(theirs: readonly string[], supported: readonly Revision[]): Revision | undefined {
  return modernOf(supported).find((revision) => theirs.includes(revision));
}

function newestFirst(supported: readonly Revision[]): readonly Revision[] {
  return revisionNames.toReversed().filter((revision) => supported.includes(revision));
}
