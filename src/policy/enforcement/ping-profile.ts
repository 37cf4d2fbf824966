import type { PolicyRefusal } from "../provider.ts";
import { messageInBody } from "../sideband/pdp-answer.ts";
import { jsonRpcCode } from "../sideband/refusal-answer.ts";

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
export function pingStatus({ kind, http }: PolicyRefusal): number {
  return http?.status ?? statusOf[kind];
}

/** The JSON-RPC code for a status (PA-171 to PA-173). */
export const pingCode = jsonRpcCode;

/** The words of a refusal: those of the decision point's JSON where it has any, else the reason. */
export function pingMessage({ http }: PolicyRefusal, reason: string): string {
  return (http === undefined ? undefined : messageInBody(http.body)) ?? reason;
}
