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
import { parseEventId } from "../route/session-streams.ts";
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
  const lost = lastEventId === undefined || resumed !== undefined ? [] : lostCalls(gateway, session, lastEventId);
  if (lost === undefined) {
    refuse(peerGone());
    return;
  }
  if (lost.length > 0) {
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
  const isComplete = stream.attach(connection, resumed === undefined ? undefined : lastEventId);
  if (!isComplete) {
    stream.attach(connection);
    // The missed events are lost, so the answer will never come. Say so instead of leaving the caller waiting.
    for (const id of stream.requests) void stream.write(lostEventsError(id));
    if (stream.requests.length > 0) stream.end();
  }
  route.listen(session);
  request.resume();
}

/**
 * The calls of a session that were lost with the process that sent an event; each is reported once. Undefined while
 * that process may still answer them.
 */
function lostCalls(
  { journal, cluster }: GatewayContext,
  session: Session,
  eventId: string,
): readonly RequestId[] | undefined {
  const { label: text, requests } = parseEventId(eventId);
  const label = decodeLabel(text);
  if (!label.ok || label.parts.session !== session.label) return [];
  const { node } = label.parts;
  if (requests.length > 0 && cluster?.peers.has(node) === true) return undefined;
  const noted = journal.lostCalls(session.id, node);
  const lost = noted.length > 0 || node === cluster?.node ? noted : requests;
  return session.tellLost([node, ...lost.map(({ key }) => key)].join(" ")) ? lost : [];
}

function lostEventsError(request: RequestId): Message {
  return errorMessage(request, {
    code: errorTable.overloaded.jsonrpc ?? -32603,
    message:
      "the answer is lost: the gateway was restarted, or no longer keeps the events after that id; the server may have executed the request",
    data: { origin: "gateway", code: "overloaded" },
  });
}
