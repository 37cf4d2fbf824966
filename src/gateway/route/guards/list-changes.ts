import type { Exchange } from "../../../core/exchange.ts";
import type { Guard, Reply } from "../../../core/pipeline.ts";
import { createTurnLimiter } from "../../../lib/turn-limiter.ts";
import { memberValue } from "../../../protocol/json/read.ts";
import type { Message, RequestMessage } from "../../../protocol/message.ts";
import { synthesizeMessage } from "../../../core/synthesize.ts";
import type { SessionRegistry } from "../../../sessions/registry.ts";
import { type AnnouncedList, announcedLists } from "../../../sessions/session-record.ts";
import type { Session } from "../../../sessions/session.ts";

/** Notifies the clients of a route that their lists have changed. */
export interface ListChanges {
  /** Remembers which changes were promised to sessions, and which streams to notify. */
  readonly guard: Guard;
  /** Notifies every client that was promised or asked for it; does not wait. */
  announce(): void;
  /** Notifies the client of one session. */
  announceTo(session: Session): void;
}

/** Sends a message to the client of a session, outside any request. */
export type NotifyClient = (session: Session, message: Message) => void;

/**
 * Creates the notifications of one route. They go to sessions whose server declared `listChanged`, and to streams of
 * `subscriptions/listen` for the lists they name.
 */
export function createListChanges(route: string, registry: SessionRegistry, tell: NotifyClient): ListChanges {
  const listens = new Map<Exchange, RequestMessage>();
  const turn = createTurnLimiter();

  function inTurn(announceOne: () => void): void {
    const later = turn();
    if (later === undefined) announceOne();
    else void later.then(announceOne);
  }

  function opened(exchange: Exchange, { message }: Reply): void {
    const session = registry.forContext(exchange.session);
    if (session === undefined || message?.kind !== "result") return;
    const capabilities: unknown = memberValue(message, "result.capabilities");
    session.lists = announcedLists.filter(
      (name) => Reflect.get(Object(Reflect.get(Object(capabilities), name)), "listChanged") === true,
    );
  }

  function announceTo(session: Session): void {
    if (session.isOver) return;
    for (const list of session.lists) tell(session, changed(list, undefined));
  }

  function announceOn(exchange: Exchange): void {
    const request = listens.get(exchange);
    if (request === undefined) return;
    const wanted: unknown = memberValue(request, "params.notifications");
    for (const list of announcedLists) {
      if (Reflect.get(Object(wanted), `${list}ListChanged`) !== true) continue;
      void Promise.resolve(exchange.reply?.write(changed(list, request.id.json))).catch(gone);
    }
  }

  return {
    guard: {
      enter: (exchange) => {
        const { message } = exchange;
        if (message.kind === "request" && isListen(exchange)) listens.set(exchange, message);
        return undefined;
      },
      answered: (exchange, reply) => {
        const { message, direction } = exchange;
        if (message.method === "initialize" && direction === "client-to-server") opened(exchange, reply);
        else if (isListen(exchange)) listens.delete(exchange);
        return reply;
      },
      failed: (exchange) => {
        if (isListen(exchange)) listens.delete(exchange);
      },
    },
    announce: () => {
      for (const session of registry.sessionsOf(route)) inTurn(() => announceTo(session));
      for (const exchange of listens.keys()) inTurn(() => announceOn(exchange));
    },
    announceTo,
  };
}

function isListen({ message, direction }: Exchange): boolean {
  return message.method === "subscriptions/listen" && direction === "client-to-server";
}

/** A client that disconnected reads the list again when it reconnects. */
function gone(): void {}

function changed(list: AnnouncedList, subscription: string | undefined): Message {
  const params =
    subscription === undefined ? "" : `,"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":${subscription}}}`;
  const text = `{"jsonrpc":"2.0","method":"notifications/${list}/list_changed"${params}}`;
  return synthesizeMessage(text);
}
