import { errorMessage } from "../core/reply.ts";
import { GatewayError } from "../errors.ts";
import { isObject } from "../lib/is-object.ts";
import { type ErrorMessage, type FailureReason, failureMessage, type RequestId } from "../protocol/message.ts";
import { parse, type ParseContext } from "../protocol/parse.ts";
import { peekUnread, type UnreadMessage } from "../protocol/unread-message.ts";

/** What is known about bytes of a server that are not a message. */
export interface InvalidMessage {
  /** What is wrong; it repeats nothing that the server said. */
  readonly reason: string;
  readonly response: InvalidResponse | undefined;
}

/** For the response to a request: what the request gets instead, and an error that has its id. */
export interface InvalidResponse {
  readonly error: GatewayError;
  readonly withId: ErrorMessage;
}

/** Failures after which the parser has not read the id. */
const unread: ReadonlySet<FailureReason> = new Set(["json.size", "json.depth", "json.syntax", "json.utf8"]);

/** Enough for the id and what may stand beside it. */
const endBytes = 1024;

/**
 * Says why bytes of a server are not a message. A response that is broken elsewhere than in its id still names the
 * request that it ends: nothing else will, so the caller would wait for the timeout.
 */
export function describeInvalid(bytes: Buffer, context: ParseContext): InvalidMessage {
  const outcome = parse(bytes, context);
  if (outcome.ok) return { reason: failureMessage("message.array"), response: undefined };
  const { reason: code, message: reason, id } = outcome.failure;
  if (id !== undefined) return { reason, response: isResponseLike(bytes) ? invalidResponse(id, reason) : undefined };
  const message = unread.has(code) ? peekUnread(bytes.subarray(0, endBytes), bytes.subarray(-endBytes)) : undefined;
  return describeUnread(message, reason);
}

/** The same for a message of which only both ends were kept. */
export function describeUnread(message: UnreadMessage | undefined, reason: string): InvalidMessage {
  return { reason, response: message?.kind === "response" ? invalidResponse(message.id, reason) : undefined };
}

function invalidResponse(id: RequestId, reason: string): InvalidResponse {
  const error = new GatewayError("upstream_invalid", `the upstream's response is not valid: ${reason}`);
  return { error, withId: errorMessage(id, { code: -32603, message: error.message }) };
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
