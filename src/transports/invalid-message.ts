import { errorMessage } from "../core/reply.ts";
import { GatewayError } from "../errors.ts";
import { isObject } from "../lib/is-object.ts";
import { type ErrorMessage, failureMessage } from "../protocol/message.ts";
import { parse, type ParseContext } from "../protocol/parse.ts";

/** What is known about bytes of a server that are not a message. */
export interface InvalidMessage {
  /** What is wrong; it repeats nothing that the server said. */
  readonly reason: string;
  /** Where it is the response to a request: what the request gets instead, and an error that has its id. */
  readonly response: { readonly error: GatewayError; readonly withId: ErrorMessage } | undefined;
}

/**
 * Says why bytes of a server are not a message. A response that is broken elsewhere than in its id still names the
 * request that it ends: nothing else will, so the caller would wait for the timeout.
 */
export function describeInvalid(bytes: Buffer, context: ParseContext): InvalidMessage {
  const outcome = parse(bytes, context);
  if (outcome.ok) return { reason: failureMessage("message.array"), response: undefined };
  const { message: reason, id } = outcome.failure;
  if (id === undefined || !isResponseLike(bytes)) return { reason, response: undefined };
  const error = new GatewayError("upstream_invalid", `the upstream's response is not valid: ${reason}`);
  return { reason, response: { error, withId: errorMessage(id, { code: -32603, message: error.message }) } };
}

/** Whether an object has no method, however that is spelled: ids of requests that a server sends are its own. */
function isResponseLike(bytes: Buffer): boolean {
  try {
    const value: unknown = JSON.parse(bytes.toString());
    return isObject(value) && !Object.keys(value).some((name) => name.toLowerCase() === "method");
  } catch {
    return false;
  }
}
