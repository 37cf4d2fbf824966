import { type ErrorCode, GatewayError } from "../../errors.ts";
import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { noReply, type Reply } from "../../core/pipeline.ts";
import { gatewayErrorMessage } from "../../core/reply.ts";
import type { PolicyRefusal, RefusalKind } from "../provider/provider.ts";
import { notFoundReply, type NotFoundTemplates } from "./not-found-replies.ts";
import { messageInBody } from "../sideband/pdp-answer.ts";
import { jsonRpcCode } from "../sideband/refusal-answer.ts";

/**
 * Which numbers refusals have: `default` those of the gateway's own table, `coaz` those of the AuthZEN profile for MCP,
 * `ping` those of PingAuthorize's plugins, with the HTTP status of the decision.
 */
export type RefusalProfile = "default" | "coaz" | "ping";

/** How refusals are told. */
export interface RefusalOptions {
  readonly profile: RefusalProfile;
  /**
   * Whether a denial is answered in band, with status 200, or by status 403. Clients show their users what an answer
   * in band says; many do not look into the body of a 403.
   */
  readonly refusalStatus: "in-band" | "forbidden";
}

/** Makes the answer to a message that was refused. Throws only where a challenge has to be answered (step-up). */
export type WriteRefusal = (subject: InspectedMessage, denial: PolicyRefusal, decision: string) => Reply;

/** What each kind of no is in the table of errors; `hidden` has no row, for it must look like nothing of ours. */
const errorOf: Readonly<Record<Exclude<RefusalKind, "hidden">, ErrorCode>> = {
  forbidden: "policy_denied",
  scope: "insufficient_scope",
  rate: "rate_limited",
  unavailable: "policy_unavailable",
  invalid: "invalid_params",
};

/** COAZ-MCP binding, "Error handling": denial, mapping error, failure of the decision point. */
const coazCode: Readonly<Record<Exclude<RefusalKind, "hidden">, number>> = {
  forbidden: -32001,
  scope: -32001,
  rate: -32001,
  unavailable: -32603,
  invalid: -32602,
};

/** Makes refusals in one form. */
export function createRefusalWriter(
  { profile, refusalStatus }: RefusalOptions,
  forms: NotFoundTemplates,
): WriteRefusal {
  return (subject, denial, decision) => {
    const { message } = subject;
    const request = message.kind === "request" ? message : undefined;
    // What was never there cannot have run; a result that shall not exist is refused like any other.
    if (denial.kind === "hidden" && request !== undefined) {
      return notFoundReply(subject, request, forms);
    }
    const error = errorFor(subject, denial, decision);
    if (profile === "ping") return pingReply(subject, denial, error);
    if (error.code === "insufficient_scope" && subject.request === undefined) throw error;
    const code = profile === "coaz" ? coazCode[kindOf(denial)] : error.facts.jsonrpc;
    return refusalReply(subject, error, code, statusIn(profile, error, refusalStatus), denial.retryAfter);
  };
}

function kindOf({ kind }: PolicyRefusal): Exclude<RefusalKind, "hidden"> {
  return kind === "hidden" ? "forbidden" : kind;
}

function errorFor(subject: InspectedMessage, denial: PolicyRefusal, decision: string): GatewayError {
  const { code, reason, scopes, retryAfter } = denial;
  // A response is refused after the effect, and whoever reads the error must be able to tell.
  const hasRun = subject.request !== undefined;
  const details = {
    reason: code,
    decision,
    ...(hasRun ? { executed: true } : {}),
    ...(scopes === undefined ? {} : { scopes }),
    ...(retryAfter === undefined ? {} : { retryAfter }),
  };
  const text = hasRun ? `the call ran, but its result is not shown: ${reason}` : reason;
  return new GatewayError(errorOf[kindOf(denial)], text, { details });
}

function statusIn(
  profile: RefusalProfile,
  error: GatewayError,
  refusalStatus: RefusalOptions["refusalStatus"],
): number | undefined {
  if (profile === "coaz") return 200;
  const { http, alternateHttp } = error.facts;
  return error.code === "policy_denied" && refusalStatus === "forbidden" ? (alternateHttp?.status ?? http) : http;
}

function refusalReply(
  subject: InspectedMessage,
  error: GatewayError,
  code: number | undefined,
  status: number | undefined,
  retryAfter: number | undefined,
): Reply {
  const { exchange, answerId } = subject;
  const facts = {
    ...(status === undefined ? {} : { status }),
    ...(retryAfter === undefined ? {} : { retryAfter }),
  };
  if (answerId === undefined) return status === undefined || status < 400 ? noReply : { message: undefined, ...facts };
  return { message: gatewayErrorMessage(exchange, answerId, error, code ?? -32603), ...facts };
}

/** PA-168 to PA-175: code by the status of the refusal, its own words, its own status. */
function pingReply(subject: InspectedMessage, denial: PolicyRefusal, error: GatewayError): Reply {
  const status = pingStatus(denial);
  const told = new GatewayError(error.code, pingMessage(denial, error.message), {
    details: error.details ?? {},
  });
  return refusalReply(subject, told, pingCode(status), status, denial.retryAfter);
}

/** The status that a denial has without an answer of the decision point. */
const statusOf: Readonly<Record<PolicyRefusal["kind"], number>> = {
  forbidden: 403,
  hidden: 404,
  scope: 403,
  rate: 429,
  unavailable: 502,
  invalid: 400,
};

/** The HTTP status of a refusal: that of the decision point's own answer, where it wrote one. */
function pingStatus({ kind, http }: PolicyRefusal): number {
  return http?.status ?? statusOf[kind];
}

/** The JSON-RPC code for a status (PA-171 to PA-173). */
const pingCode = jsonRpcCode;

/** The words of a refusal: those of the decision point's JSON where it has any, else the reason. */
function pingMessage({ http }: PolicyRefusal, reason: string): string {
  return (http === undefined ? undefined : messageInBody(http.body)) ?? reason;
}
