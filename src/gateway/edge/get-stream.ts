import type { IncomingMessage, ServerResponse } from "node:http";

import type { HeldBytes } from "../../core/byte-budget.ts";
import { errorMessage } from "../../core/reply.ts";
import { errorTable, GatewayError } from "../../errors.ts";
import { decodeLabel } from "../../protocol/ids/label.ts";
import { type Message, messageBytes, type RequestId } from "../../protocol/message.ts";
import { encodeSseMessage } from "../../protocol/sse/encoder.ts";
import type { Session } from "../../sessions/session.ts";
import { SseResponse } from "../../transports/http/sse-response.ts";
import type { GatewayContext } from "../context.ts";
import type { Route } from "../route/route.ts";
import { parseEventId, type SessionStream } from "../route/session-streams.ts";
import { refuseRequest } from "./http-reply.ts";
import { onExpiry } from "./route-authentication.ts";
import { peerGone } from "./session-peer.ts";

/** A GET at a route's MCP endpoint. */
export interface GetRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly route: Route;
  readonly header: (name: string) => string | undefined;
  /** Something new that the caller holds. */
  hold(): HeldBytes;
  /** Why there is no session. */
  sessionError(): GatewayError;
}

/** GET: opens the stream for messages outside any request, or resumes a broken stream. */
export function openStream(http: GetRequest, gateway: GatewayContext, session: Session | undefined): void {
  const { request, response, route, header } = http;
  const refuse = (error: GatewayError): void => {
    refuseRequest(gateway, route.name, response, error);
  };
  if (session === undefined) {
    refuse(http.sessionError());
    return;
  }
  if (header("accept")?.includes("text/event-stream") !== true) {
    refuse(new GatewayError("not_acceptable", "the Accept header of a GET must include text/event-stream"));
    return;
  }
  const streams = route.streamsOf(session);
  const lastEventId = header("last-event-id");
  const resumed = lastEventId === undefined ? undefined : streams.find(lastEventId);
  const lost = lastEventId === undefined ? [] : lostCalls(gateway, session, lastEventId, resumed);
  if (lost === "held by a peer") {
    refuse(peerGone());
    return;
  }
  if (lost === "unknown") {
    // As if it were absent, its sender would wait for what never comes (MCP 2025-11-25, "Resumability and Redelivery").
    const text =
      "Last-Event-ID names no event that this session still knows; leave it out to listen to new messages, and expect no answers to calls of that stream";
    refuse(new GatewayError("invalid_message", text));
    return;
  }
  if (lost.length > 0) {
    // The answer, if it comes at all, would come after events that are lost.
    resumed?.end();
    const connection = new SseResponse(response, route.streamOptions);
    for (const id of lost) void connection.write(encodeSseMessage(messageBytes(lostEventsError(id))));
    connection.end();
    return;
  }
  const stream = resumed ?? streams.general;
  if (resumed === undefined && stream.isAttached) {
    refuse(new GatewayError("stream_conflict", "this session already has an open GET stream"));
    return;
  }
  const { clock } = gateway;
  session.touch(clock.now());
  session.running++;
  response.on("close", () => {
    session.running--;
    session.touch(clock.now());
  });
  const connection = new SseResponse(response, route.streamOptions, {}, http.hold());
  // The client can come back with newer credentials without missing events; requests of the session renew them too.
  const stop = onExpiry(
    () => session.principal,
    gateway,
    () => {
      connection.end();
    },
  );
  response.on("close", stop);
  // Messages outside calls that are lost cannot be made up for.
  if (!stream.attach(connection, resumed === undefined ? undefined : lastEventId)) stream.attach(connection);
  route.listen(session);
  request.resume();
}

/**
 * The calls of a session whose events are gone, by the id of one of them; each is reported once. They were lost with the
 * process that sent the event, or this one no longer keeps their stream. None if the event was on the stream for messages
 * outside calls.
 */
function lostCalls(
  { journal, cluster, node: ownNode }: GatewayContext,
  session: Session,
  eventId: string,
  stream: SessionStream | undefined,
): readonly RequestId[] | "unknown" | "held by a peer" {
  // The caller must not wait for what will never come.
  if (stream !== undefined) return stream.hasLostAfter(eventId) ? stream.requests : [];
  const { label: text, requests } = parseEventId(eventId);
  const label = decodeLabel(text);
  if (!label.ok || label.parts.session !== session.label) return "unknown";
  const { node } = label.parts;
  if (requests.length > 0 && cluster?.peers.has(node) === true) return "held by a peer";
  // This process remembers its streams, and this one may have answered a call.
  if (node === ownNode && requests.length === 0) return "unknown";
  const lost = new Map([...journal.lostCalls(session.id, node), ...requests].map((id) => [id.key, id]));
  return [...lost.values()].filter(({ key }) => session.tellLost(`${node} ${key}`));
}

function lostEventsError(request: RequestId): Message {
  return errorMessage(request, {
    code: errorTable.overloaded.jsonrpc ?? -32603,
    message:
      "the answer is lost: the gateway was restarted, or no longer keeps the events after that id; the server may have executed the request",
    data: { origin: "gateway", code: "overloaded" },
  });
}
