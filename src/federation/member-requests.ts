import { Cancellation } from "../core/cancellation.ts";
import { createExchange, type Exchange, type SetTimer, type TransportContext } from "../core/exchange.ts";
import type { Reply } from "../core/pipeline.ts";
import { createNotification, createRequest } from "../core/synthesize.ts";
import { GatewayError } from "../errors.ts";
import { causedLabel } from "../protocol/ids/label.ts";
import { memberSource } from "../protocol/json/read.ts";
import { idFrom, type Message, type RequestMessage } from "../protocol/message.ts";
import type { UpstreamLink } from "../transports/transport.ts";

const envelopeMembers = ["protocolVersion", "clientCapabilities", "clientInfo", "logLevel"] as const;

let requests = 0;

/** A request of the federation itself, made like the one that causes it. */
export function createOwnRequest(like: Exchange, method: string, members: readonly string[] = []): RequestMessage {
  const id = idFrom(`headgate-${++requests}`);
  return createRequest(id, method, `{${[...members, ...envelopeOf(like)].join(",")}}`);
}

/** A notification of the federation's own. */
export function createOwnNotification(method: string, members: readonly string[] = []): Message {
  return createNotification(method, `{${members.join(",")}}`);
}

/** What a modern request says about itself, as a member of the same client's other requests. */
function envelopeOf({ era, message }: Exchange): readonly string[] {
  if (era !== "modern") return [];
  const members = envelopeMembers.flatMap((name) => {
    const source = memberSource(message, `params._meta.io.modelcontextprotocol/${name}`);
    return source === undefined ? [] : [`"io.modelcontextprotocol/${name}":${source}`];
  });
  return [`"_meta":{${members.join(",")}}`];
}

/** The exchange of a message of the federation itself; recordings show it as a part of the one that causes it. */
export function createOwnExchange(like: Exchange, message: Message, cancellation = new Cancellation()): Exchange {
  return createExchange({
    ...like,
    id: causedLabel(like.id, ++requests),
    message,
    transport: withoutParameters(like.transport),
    parent: like,
    cancellation,
    reply: undefined,
  });
}

/** Observes the requests of the federation itself, and their answers. */
export interface OwnRequestObserver {
  sent(leg: "upstream", message: Message, exchange: Exchange): void;
  received(leg: "upstream", message: Message, exchange: Exchange): void;
  /** No answer came. */
  failed(error: GatewayError, exchange: Exchange): void;
}

export interface AskDeps {
  readonly setTimer: SetTimer;
  /** How long a member may take for a request of the federation's own, which no other timeout covers. */
  readonly quickMs: number;
  readonly observer: OwnRequestObserver | undefined;
}

/** Sends a request of the federation itself to a member; it times out after a while. */
export async function askOver(
  link: UpstreamLink,
  member: string,
  exchange: Exchange,
  { setTimer, quickMs, observer }: AskDeps,
): Promise<Reply> {
  const stop = setTimer(quickMs, () => {
    exchange.cancellation.cancel("timeout");
  });
  exchange.tracking.upstream = { member, name: "" };
  observer?.sent("upstream", exchange.message, exchange);
  try {
    const reply = await link.request(exchange);
    if (reply.message !== undefined) observer?.received("upstream", reply.message, exchange);
    return reply;
  } catch (error) {
    const failure = GatewayError.from(error);
    observer?.failed(failure, exchange);
    throw failure;
  } finally {
    stop();
  }
}

/** Headers that repeat arguments of the client's own request do not belong to others. */
function withoutParameters(transport: TransportContext): TransportContext {
  if (transport.type !== "http") return transport;
  const headers = Object.entries(transport.headers).filter(([name]) => !name.startsWith("mcp-param-"));
  return { ...transport, headers: Object.fromEntries(headers) };
}
