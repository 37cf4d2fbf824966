import type { Exchange } from "../../core/exchange.ts";
import type { Guard, Reply } from "../../core/pipeline.ts";
import { memberValue } from "../../protocol/json/read.ts";
import type { Message, RequestMessage } from "../../protocol/message.ts";
import { parseText } from "../../protocol/parse.ts";
import type { SessionRegistry } from "../../sessions/registry.ts";
import type { Session } from "../../sessions/session.ts";

/** The lists that a policy may make different, by the capability of their server and the member of a listen. */
const lists = [
  { capability: "tools", member: "toolsListChanged" },
  { capability: "prompts", member: "promptsListChanged" },
  { capability: "resources", member: "resourcesListChanged" },
] as const;

type Capability = (typeof lists)[number]["capability"];

/** What a route needs to tell its clients that their lists are others now. */
export interface ListChanges {
  /** Watches who is there and what they were promised or asked for. */
  readonly guard: Guard;
  /** Tells everybody who was promised to hear of it. Whoever is told takes it or has gone; nobody waits for them. */
  announce(): void;
}

/** Sends a message to the client of a session, outside any request. */
export type NotifyClient = (session: Session, message: Message) => void;

/**
 * Makes the announcements of one route. Only what was asked for is sent: in sessions where the server said that it
 * tells of list changes, and on streams of `subscriptions/listen` for the lists that they name.
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

/** Who cannot be told any more will ask for the list anew when it comes back. */
function gone(): void {}

function changed(capability: Capability, subscription: string | undefined): Message {
  const params =
    subscription === undefined ? "" : `,"params":{"_meta":{"io.modelcontextprotocol/subscriptionId":${subscription}}}`;
  const text = `{"jsonrpc":"2.0","method":"notifications/${capability}/list_changed"${params}}`;
  const outcome = parseText(text, { revision: "unknown", mode: "enforce" });
  if (outcome.ok && outcome.form === "single") return outcome.message;
  throw new TypeError("the announcement is no message");
}
