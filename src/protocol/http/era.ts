import { claimsModern, isModernEnvelope, type MethodMessage } from "../envelope.ts";
import { type HeaderLookup, revisionHeaderOf, trimHeaderValue } from "./mirrored-headers.ts";
import { memberString } from "../json/read.ts";
import type { Message, ParseOutcome } from "../message.ts";
import { headerMismatch, unsupportedRevision } from "./modern-post.ts";
import { errorResponse, type ErrorResponse, parseFailureResponse } from "../error-response.ts";
import { isModernRevision, type Revision } from "../revisions.ts";

/** Which eras an endpoint serves, and which revisions it lists to those it turns away. */
export interface ServedRevisions {
  readonly eras: "both" | "legacy" | "modern";
  readonly supported: readonly Revision[];
}

/** Whose traffic a POST is, or why it is nobody's. */
export type PostClassification =
  | {
      readonly ok: true;
      readonly era: "legacy";
      readonly reason: "handshake" | "request" | "notification" | "response" | "batch";
      /** What the version header says; the session's revision goes before it. */
      readonly named: string | undefined;
    }
  /** To be judged by the modern checks. */
  | { readonly ok: true; readonly era: "modern"; readonly message: MethodMessage }
  /** A legacy notification where only modern clients are served: answered 202 and dropped. */
  | { readonly ok: true; readonly era: "none" }
  | { readonly ok: false; readonly refusal: ErrorResponse };

/** What an HTTP verb asks for at an MCP endpoint. */
export type VerbClassification =
  | { readonly ok: true; readonly route: "message" | "stream" | "end-session" }
  | { readonly ok: false; readonly status: 405; readonly allow: string };

type ParsedOutcome = ParseOutcome & { readonly ok: true };
type LegacyClassification = PostClassification & { readonly ok: true; readonly era: "legacy" };

/** Routes by verb: GET and DELETE are session operations of the legacy era, everything else but POST is nothing. */
export function classifyVerb(verb: string, { eras }: Pick<ServedRevisions, "eras">): VerbClassification {
  if (verb === "POST") return { ok: true, route: "message" };
  if (eras === "modern") return { ok: false, status: 405, allow: "POST" };
  if (verb === "GET") return { ok: true, route: "stream" };
  if (verb === "DELETE") return { ok: true, route: "end-session" };
  return { ok: false, status: 405, allow: "POST, GET, DELETE" };
}

/** Whether a Content-Type says JSON, parameters aside; a POST of anything else is answered 415. */
export function isJsonContentType(value: string | undefined): boolean {
  if (value === "application/json") return true;
  const [essence = ""] = (value ?? "").split(";", 1);
  return trimHeaderValue(essence).toLowerCase() === "application/json";
}

/**
 * Tells the era of a POST by its body first, once and for all: a modern request carries its revision in `_meta`, and
 * only where it does not may the version header speak. What that era demands is checked later, with one exception:
 * `initialize` under a modern header fits no era.
 */
export function classifyPost(
  outcome: ParseOutcome,
  header: HeaderLookup,
  serving: ServedRevisions,
): PostClassification {
  if (!outcome.ok) return { ok: false, refusal: parseFailureResponse(outcome.failure) };
  const named = revisionHeaderOf(header);
  // To an endpoint without the modern era an envelope is just metadata that it does not know.
  if (serving.eras === "legacy") return legacy(outcome, named);
  const verdict = outcome.form === "batch" ? classifyBatch(outcome, named) : classifyMessage(outcome, named);
  const isForeign = serving.eras === "modern" && verdict.ok && verdict.era === "legacy";
  return isForeign ? turnAway(outcome, verdict, serving.supported) : verdict;
}

function classifyMessage(
  outcome: ParsedOutcome & { readonly form: "single" },
  named: string | undefined,
): PostClassification {
  const { message } = outcome;
  if (!isAsking(message)) return legacy(outcome, named);
  const isNamedModern = named !== undefined && isModernRevision(named);
  // `initialize` is a handshake unless its envelope is beyond doubt: dual-era clients may well name a newer version.
  if (message.method === "initialize" && !isModernEnvelope(message)) {
    return isNamedModern ? refuseHandshake(message) : legacy(outcome, named);
  }
  return claimsModern(message) || isNamedModern ? { ok: true, era: "modern", message } : legacy(outcome, named);
}

/** An array may only hold legacy messages, and at least one of them must be one; bad members fail alone later. */
function classifyBatch(
  outcome: ParsedOutcome & { readonly form: "batch" },
  named: string | undefined,
): PostClassification {
  const messages = outcome.members.flatMap((member) => (member.ok ? [member.message] : []));
  const isClaimed = messages.some((message) => isAsking(message) && claimsModern(message));
  if (isClaimed) return invalid("a batch cannot hold requests of the modern era");
  return messages.length === 0 ? invalid("the batch holds no valid message") : legacy(outcome, named);
}

function refuseHandshake(message: MethodMessage): PostClassification {
  const text = "initialize opens a session of an older revision than the header MCP-Protocol-Version names";
  const mismatch = { header: "MCP-Protocol-Version", problem: "different", message: text } as const;
  return { ok: false, refusal: headerMismatch(message, mismatch) };
}

/** What an endpoint that serves only modern clients says to legacy traffic. */
function turnAway(
  outcome: ParsedOutcome,
  verdict: LegacyClassification,
  supported: readonly Revision[],
): PostClassification {
  if (verdict.reason === "notification") return { ok: true, era: "none" };
  if (outcome.form === "batch") return invalid("batches are not served here");
  const { message } = outcome;
  if (!isAsking(message)) return invalid("responses cannot be posted here");
  // Any answer to `initialize` names what is supported, so that the client can tell its user.
  const wish = verdict.reason === "handshake" ? memberString(message, "params.protocolVersion") : undefined;
  return { ok: false, refusal: unsupportedRevision(message, supported, wish ?? verdict.named) };
}

function legacy(outcome: ParsedOutcome, named: string | undefined): LegacyClassification {
  return { ok: true, era: "legacy", reason: legacyReason(outcome), named };
}

function legacyReason(outcome: ParsedOutcome): LegacyClassification["reason"] {
  if (outcome.form === "batch") return "batch";
  const { message } = outcome;
  if (!isAsking(message)) return "response";
  if (message.kind === "notification") return "notification";
  return message.method === "initialize" ? "handshake" : "request";
}

function isAsking(message: Message): message is MethodMessage {
  return message.kind === "request" || message.kind === "notification";
}

function invalid(message: string): PostClassification {
  return { ok: false, refusal: errorResponse("invalid_message", message) };
}
