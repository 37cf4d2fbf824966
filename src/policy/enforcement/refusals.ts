import { withoutUndefined } from "../../lib/without-undefined.ts";
import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import type { Reply } from "../../core/pipeline.ts";
import { gatewayErrorMessage, unansweredReply } from "../../core/reply.ts";
import { type ErrorCode, GatewayError } from "../../errors.ts";
import type { PolicyRefusal, RefusalKind } from "../provider/provider.ts";
import { messageInBody } from "../sideband/pdp-call.ts";
import { jsonRpcCode } from "../sideband/refusal-answer.ts";
import type { NotFoundReplies } from "./not-found-replies.ts";
import type { Message, RequestMessage } from "../../protocol/message.ts";
import { parseSingle } from "../../protocol/parse.ts";

/**
 * The error codes of refusals: `default` the gateway's own, `coaz` those of the AuthZEN binding for MCP, `ping` those of
 * the PingAuthorize plugin, with the HTTP status of the decision.
 */
export type RefusalProfile = "default" | "coaz" | "ping";

export interface RefusalOptions {
  readonly profile: RefusalProfile;
  /** Answer a denial in band with status 200, or with 403. Many clients do not show the body of a 403. */
  readonly refusalStatus: "in-band" | "forbidden";
}

/** Writes the reply to a refused message. Throws only if a challenge has to be answered (step-up). */
export type WriteRefusal = (subject: InspectedMessage, refusal: PolicyRefusal, decisionId: string) => Reply;

interface KindFacts {
  readonly error: ErrorCode;
  /** COAZ-MCP binding, "Error handling". */
  readonly coazCode: number;
  /** The status of the profile `ping` if the decision point wrote no answer. */
  readonly pingStatus: number;
}

const kindFacts: Readonly<Record<RefusalKind, KindFacts>> = {
  forbidden: { error: "policy_denied", coazCode: -32001, pingStatus: 403 },
  // For results: a hidden request is answered as not found.
  hidden: { error: "policy_denied", coazCode: -32001, pingStatus: 404 },
  scope: { error: "insufficient_scope", coazCode: -32001, pingStatus: 403 },
  rate: { error: "rate_limited", coazCode: -32001, pingStatus: 429 },
  unavailable: { error: "policy_unavailable", coazCode: -32603, pingStatus: 502 },
  invalid: { error: "invalid_params", coazCode: -32602, pingStatus: 400 },
};

export function createRefusalWriter(
  { profile, refusalStatus }: RefusalOptions,
  notFound: NotFoundReplies,
): WriteRefusal {
  return (subject, refusal, decisionId) => ({ ...write(subject, refusal, decisionId), isRefusal: true });

  function write(subject: InspectedMessage, refusal: PolicyRefusal, decisionId: string): Reply {
    const { message, exchange } = subject;
    if (refusal.kind === "hidden" && message.kind === "request")
      return { ...notFound.replyFor(exchange, message), isHidden: true };
    const { coazCode, pingStatus } = kindFacts[refusal.kind];
    const error = toError(subject, refusal, decisionId);
    if (profile === "ping") {
      // PA-168 to PA-175: the decision point's status and message, and the JSON-RPC code of the status.
      const { http } = refusal;
      const status = http?.status ?? pingStatus;
      const text = (http === undefined ? undefined : messageInBody(http.body)) ?? error.message;
      const told = new GatewayError(error.code, text, { details: error.details ?? {} });
      return toReply(subject, told, jsonRpcCode(status), status, refusal.retryAfter);
    }
    if (error.code === "insufficient_scope" && subject.request === undefined) throw error;
    const { jsonrpc, http, alternateHttp } = error.facts;
    if (profile === "coaz") return toReply(subject, error, coazCode, 200, refusal.retryAfter);
    const isForbidden = error.code === "policy_denied" && refusalStatus === "forbidden";
    const status = isForbidden ? (alternateHttp?.status ?? http) : http;
    return toReply(subject, error, jsonrpc, status, refusal.retryAfter);
  }
}

function toError(subject: InspectedMessage, refusal: PolicyRefusal, decisionId: string): GatewayError {
  const { kind, code, reason, scopes, retryAfter } = refusal;
  // A refused response: the call has already run, and the client must be able to tell.
  const hasRun = subject.request !== undefined;
  const details = {
    reason: code,
    decision: decisionId,
    ...(hasRun ? { executed: true } : {}),
    ...withoutUndefined({ scopes, retryAfter }),
  };
  const text = hasRun ? `The call ran, but its result is withheld: ${reason}` : reason;
  return new GatewayError(kindFacts[kind].error, text, { details });
}

function toReply(
  { exchange, answerId }: InspectedMessage,
  error: GatewayError,
  code: number | undefined,
  status: number | undefined,
  retryAfter: number | undefined,
): Reply {
  const http = withoutUndefined({ status, retryAfter });
  if (answerId === undefined) return unansweredReply(exchange, error, code ?? -32603, http);
  return { message: gatewayErrorMessage(exchange, answerId, error, code ?? -32603), ...http };
}

/** A message that stands for a part of another one; undefined if its text is not a valid message. */
export function messageFromText(text: string): Message | undefined {
  return parseSingle(text, { revision: "unknown", mode: "enforce" });
}

/** A request from the JSON texts of its id and params. */
export function requestFromTexts(id: string, method: string, params: string | undefined): RequestMessage | undefined {
  const member = params === undefined ? "" : `,"params":${params}`;
  const message = messageFromText(`{"jsonrpc":"2.0","id":${id},"method":${JSON.stringify(method)}${member}}`);
  return message?.kind === "request" ? message : undefined;
}

/** A result from the JSON texts of its id and result. */
export function resultFromTexts(id: string, result: string): Message | undefined {
  const message = messageFromText(`{"jsonrpc":"2.0","id":${id},"result":${result}}`);
  return message?.kind === "result" ? message : undefined;
}
