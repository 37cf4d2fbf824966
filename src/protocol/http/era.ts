import { claimsModern, isModernEnvelope } from "../envelope.ts";
import { type HeaderLookup, revisionHeaderOf, trimHeaderValue } from "./mirrored-headers.ts";
import { memberString } from "../json/read.ts";
import {
  errorResponse,
  type ErrorResponse,
  isMethodMessage,
  type MethodMessage,
  parseFailureResponse,
  type ParseOutcome,
} from "../message.ts";
import { headerMismatch, unsupportedRevision } from "./modern-post.ts";
import { isModernRevision, type Revision } from "../revisions.ts";

/** The eras that an endpoint serves, and the revisions that it lists in errors. */
export interface ServedRevisions {
  readonly eras: "both" | "legacy" | "modern";
  readonly supported: readonly Revision[];
}

/** The era of a POST, or the error response to one that fits no era. */
export type PostClassification =
  | {
      readonly ok: true;
      readonly era: "legacy";
      readonly reason: "handshake" | "request" | "notification" | "response" | "batch";
      /** The value of the version header; the revision of the session takes precedence. */
      readonly named: string | undefined;
    }
  /** For {@link checkModernPost} to check. */
  | { readonly ok: true; readonly era: "modern"; readonly message: MethodMessage }
  /** A legacy notification at an endpoint that only serves modern clients: answered with 202 and dropped. */
  | { readonly ok: true; readonly era: "none" }
  | { readonly ok: false; readonly response: ErrorResponse };

/** What an HTTP method means at an MCP endpoint. */
export type VerbClassification =
  | { readonly ok: true; readonly route: "message" | "stream" | "end-session" }
  | { readonly ok: false; readonly status: 405; readonly allow: string };

type ParsedOutcome = ParseOutcome & { readonly ok: true };
type LegacyClassification = PostClassification & { readonly ok: true; readonly era: "legacy" };

/** Classifies an HTTP method: GET and DELETE are session operations of the legacy era. */
export function classifyVerb(verb: string, { eras }: Pick<ServedRevisions, "eras">): VerbClassification {
  if (verb === "POST") return { ok: true, route: "message" };
  if (eras === "modern") return { ok: false, status: 405, allow: "POST" };
  if (verb === "GET") return { ok: true, route: "stream" };
  if (verb === "DELETE") return { ok: true, route: "end-session" };
  return { ok: false, status: 405, allow: "POST, GET, DELETE" };
}

/** Whether a Content-Type is JSON, ignoring parameters; any other POST is answered with 415. */
export function isJsonContentType(value: string | undefined): boolean {
  if (value === "application/json") return true;
  const [essence = ""] = (value ?? "").split(";", 1);
  return trimHeaderValue(essence).toLowerCase() === "application/json";
}

/** JSON between systems is UTF-8 (RFC 8259, section 8.1), of which ASCII is a part. */
const charsets: ReadonlySet<string> = new Set(["utf-8", "utf8", "us-ascii"]);
const charset = /;\s*charset\s*=\s*"?(?<name>[^";\s]*)/giu;

/**
 * Why a POST is not plain JSON in UTF-8, by what its headers say about the body; undefined if it is. A body is parsed as
 * what it claims to be, or not at all: others on the way may read it as the headers say.
 */
export function contentProblem(header: HeaderLookup): string | undefined {
  const type = header("content-type");
  if (!isJsonContentType(type)) return "the body of a POST must be application/json";
  if (type !== "application/json")
    for (const { groups } of (type ?? "").matchAll(charset))
      if (!charsets.has(groups?.["name"]?.toLowerCase() ?? "")) return "the body of a POST must be in UTF-8";
  const coding = header("content-encoding");
  if (coding === undefined || trimHeaderValue(coding).toLowerCase() === "identity") return undefined;
  return "the body of a POST must not be compressed; leave out Content-Encoding";
}

/**
 * Finds the era of a POST. The body decides: a modern request names its revision in `_meta`. The version header counts
 * only if the body does not. The rules of the era are checked later, except that `initialize` with a modern header
 * fits no era.
 */
export function classifyPost(outcome: ParseOutcome, header: HeaderLookup, served: ServedRevisions): PostClassification {
  if (!outcome.ok) return { ok: false, response: parseFailureResponse(outcome.failure) };
  const named = revisionHeaderOf(header);
  // An endpoint without the modern era ignores the envelope as unknown metadata.
  if (served.eras === "legacy") return legacy(outcome, named);
  const classified = outcome.form === "batch" ? classifyBatch(outcome, named) : classifyMessage(outcome, named);
  const isForeign = served.eras === "modern" && classified.ok && classified.era === "legacy";
  return isForeign ? rejectLegacy(outcome, classified, served.supported) : classified;
}

function classifyMessage(
  outcome: ParsedOutcome & { readonly form: "single" },
  named: string | undefined,
): PostClassification {
  const { message } = outcome;
  if (!isMethodMessage(message)) return legacy(outcome, named);
  const isNamedModern = named !== undefined && isModernRevision(named);
  // `initialize` is a handshake unless its envelope is complete: dual-era clients may name a newer version in it.
  if (message.method === "initialize" && !isModernEnvelope(message)) {
    return isNamedModern ? handshakeMismatch(message) : legacy(outcome, named);
  }
  return claimsModern(message) || isNamedModern ? { ok: true, era: "modern", message } : legacy(outcome, named);
}

/** A batch must contain only legacy messages, and at least one valid one; invalid members are answered later. */
function classifyBatch(
  outcome: ParsedOutcome & { readonly form: "batch" },
  named: string | undefined,
): PostClassification {
  const messages = outcome.members.flatMap((member) => (member.ok ? [member.message] : []));
  const isClaimed = messages.some((message) => isMethodMessage(message) && claimsModern(message));
  if (isClaimed) return invalid("a batch must not contain modern requests");
  return messages.length === 0 ? invalid("the batch contains no valid message") : legacy(outcome, named);
}

function handshakeMismatch(message: MethodMessage): PostClassification {
  const text = "initialize belongs to an older revision than the header MCP-Protocol-Version names";
  const mismatch = { header: "MCP-Protocol-Version", problem: "different", message: text } as const;
  return { ok: false, response: headerMismatch(message, mismatch) };
}

/** The response to legacy traffic of an endpoint that only serves modern clients. */
function rejectLegacy(
  outcome: ParsedOutcome,
  classified: LegacyClassification,
  supported: readonly Revision[],
): PostClassification {
  if (classified.reason === "notification") return { ok: true, era: "none" };
  if (outcome.form === "batch") return invalid("batches are not supported here");
  const { message } = outcome;
  if (!isMethodMessage(message)) return invalid("responses are not accepted here");
  // The error for `initialize` lists the supported revisions, so that the client can tell its user.
  const requested = classified.reason === "handshake" ? memberString(message, "params.protocolVersion") : undefined;
  return { ok: false, response: unsupportedRevision(message, supported, requested ?? classified.named) };
}

function legacy(outcome: ParsedOutcome, named: string | undefined): LegacyClassification {
  return { ok: true, era: "legacy", reason: legacyReason(outcome), named };
}

function legacyReason(outcome: ParsedOutcome): LegacyClassification["reason"] {
  if (outcome.form === "batch") return "batch";
  const { message } = outcome;
  if (!isMethodMessage(message)) return "response";
  if (message.kind === "notification") return "notification";
  return message.method === "initialize" ? "handshake" : "request";
}

function invalid(message: string): PostClassification {
  return { ok: false, response: errorResponse("invalid_message", message) };
}
