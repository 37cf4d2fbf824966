import { GatewayError } from "../../errors.ts";
import type { TransportContext } from "../../exchange.ts";
import { insertMember, replaceMember } from "../../protocol/json/splice.ts";
import type { Message } from "../../protocol/message.ts";
import { newestLegacy } from "../../protocol/revisions.ts";
import type { SseEvent } from "../../protocol/sse-event.ts";
import { readUpstreamMessage } from "./response.ts";
import type { ResponseHeaders } from "./response.ts";

/** Whether a message answers a request: it carries the same id, or is an error that could not name one. */
export function isResponseTo(answer: Message, request: Message): boolean {
  if (answer.kind !== "result" && answer.kind !== "error") return false;
  return answer.id === undefined ? answer.kind === "error" : answer.id.key === request.id?.key;
}

/** An error that came without an id answers the request it came back on; the client needs to be told which. */
export function withIdOf(request: Message, answer: Message): Message {
  if (answer.id !== undefined || request.id === undefined) return answer;
  // Servers also write null where they mean none.
  const bytes =
    replaceMember(answer, "id", request.id.json) ??
    insertMember(answer.bytes, answer.outline, answer.outline, "id", request.id.json);
  return (
    readUpstreamMessage(bytes, newestLegacy, { maxBytes: bytes.length, maxDepth: 1000, maxBatch: 1 }) ??
    answer
  );
}

/** The session id that an upstream gave with its answer to `initialize`. */
export function sessionHeader(headers: ResponseHeaders): string | undefined {
  const value = headers["mcp-session-id"];
  return typeof value === "string" ? value : undefined;
}

/** What is told of an event of a stream besides its message. */
export type SseContext = Extract<TransportContext, { readonly type: "sse" }>;

/** Where an event of a stream came from. */
export function sseContext(stream: string, event: SseEvent): SseContext {
  return {
    type: "sse",
    stream,
    ...(event.id === undefined ? {} : { eventId: event.id }),
    ...(event.event === undefined ? {} : { event: event.event }),
    ...(event.retry === undefined ? {} : { retry: event.retry }),
  };
}

/** What a status that is no answer to the request means; nothing of the upstream's own words is in it. */
export function upstreamStatusError(status: number, headers: ResponseHeaders = {}): GatewayError {
  const details = { upstreamStatus: status };
  if (status === 401 || status === 403) {
    return new GatewayError("upstream_unreachable", "the upstream refuses the gateway's credentials", {
      details,
    });
  }
  if (status >= 300 && status < 400) {
    const where = headers["location"] === undefined ? "" : "; redirects are not followed";
    return new GatewayError("upstream_invalid", `the upstream answered with status ${status}${where}`, {
      details,
    });
  }
  return new GatewayError("upstream_invalid", `the upstream answered with status ${status}`, { details });
}
