import type { Exchange } from "../../core/exchange.ts";
import type { Guard, Reply } from "../../core/pipeline.ts";
import { memberValue } from "../../protocol/json/read.ts";
import type { Message, RequestMessage } from "../../protocol/message.ts";
import { parseText } from "../../protocol/parse.ts";
import type { SessionRegistry } from "../../sessions/registry.ts";
import type { Session } from "../../sessions/session.ts";

/** The lists that a policy may filter, by server capability and by member of `subscriptions/listen`. */
const lists = [
  { capability: "tools", member: "toolsListChanged" },
  { capability: "prompts", member: "promptsListChanged" },
  { capability: "resources", member: "resourcesListChanged" },
] as const;

type Capability = (typeof lists)[number]["capability"];

/** Notifies the clients of a route that their lists have changed. */
export interface ListChanges {
  /** Remembers the sessions and streams to notify. */
  readonly guard: Guard;
  /** Notifies every client that was promised or asked for it, without waiting. */
  announce(): void;
}

/** Sends a message to the client of a session, outside any request. */
export type NotifyClient = (session: Session, message: Message) => void;

/**
 * Creates the notifications of one route. They go to sessions whose server declared `listChanged`, and to streams of
 * `subscriptions/listen` for the lists they name.
 */
export function createListChanges(registry: SessionRegistry, tell: NotifyClient): ListChanges {
  const sessions = new Map<Session, readonly Capability[]>();
  const listens = new Map<Exchange, RequestMessage>();

  function opened(exchange: Exchange, { message }: Reply): void {
    const session = registry.forContext(exchange.session);
    if (session === undefined || message?.kind !== "result") return;
    const capabilities: unknown = memberValue(message, "result.capabilities");
    const promised = lists
      .map(({ capability }) => capability)
      .filter((name) => Reflect.get(Object(Reflect.get(Object(capabilities), name)), "listChanged") === true);
    if (promised.length === 0) return;
    sessions.set(session, promised);
    session.onEnd(() => {
      sessions.delete(session);
    });
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
      for (const [session, promised] of sessions) {
        for (const capability of promised) tell(session, changed(capability, undefined));
      }
      for (const [exchange, request] of listens) {
        const wanted: unknown = memberValue(request, "params.notifications");
        for (const { capability, member } of lists) {
          if (Reflect.get(Object(wanted), member) !== true) continue;
          void Promise.resolve(exchange.reply?.write(changed(capability, request.id.json))).catch(gone);
        }
      }
    },
  };
}

function isListen({ message, direction }: Exchange): boolean {
  return message.method === "subscriptions/listen" && direction === "client-to-server";
}

/** A client that has gone reads the list again when it comes back. */
function gone(): void {}

function changed(capability: Capability, subscription: string | undefined): Message {
  const params =
    subscription === undefined ? "" : `,"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":${subscription}}}`;
  const text = `{"jsonrpc":"2.0","method":"notifications/${capability}/list_changed"${params}}`;
  const outcome = parseText(text, { revision: "unknown", mode: "enforce" });
  if (outcome.ok && outcome.form === "single") return outcome.message;
  throw new TypeError("built an invalid notification");
}
