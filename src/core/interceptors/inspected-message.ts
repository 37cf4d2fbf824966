import { type Exchange, withMessage } from "../exchange.ts";
import type { Message, RequestId, RequestMessage } from "../../protocol/message.ts";
import { type MessageMetadata, metadataOf } from "../../protocol/metadata.ts";
import type { MessagePhase } from "./interceptor.ts";

/** A message as interceptors and policies inspect it. */
export class InspectedMessage {
  readonly exchange: Exchange;
  readonly message: Message;
  readonly direction: Exchange["direction"];
  readonly phase: MessagePhase;
  readonly request: RequestMessage | undefined;
  #metadata: MessageMetadata | undefined;

  private constructor(exchange: Exchange, message: Message, request: RequestMessage | undefined) {
    this.exchange = exchange;
    this.message = message;
    this.request = request;
    this.phase = message.method === undefined ? "response" : "request";
    this.direction = request === undefined ? exchange.direction : reverse(exchange.direction);
  }

  /** Inspects the message of an exchange. */
  static of(exchange: Exchange): InspectedMessage {
    return new InspectedMessage(exchange, exchange.message, undefined);
  }

  /** Inspects the response to the request of an exchange. */
  static answering(exchange: Exchange, request: RequestMessage, response: Message): InspectedMessage {
    return new InspectedMessage(exchange, response, request);
  }

  /** The same with a changed message. */
  with(message: Message): InspectedMessage {
    const { exchange, request } = this;
    return request === undefined
      ? InspectedMessage.of(withMessage(exchange, message))
      : new InspectedMessage(exchange, message, request);
  }

  get metadata(): MessageMetadata {
    const { session, revision } = this.exchange;
    return (this.#metadata ??= metadataOf(this.message, {
      revision,
      ...(session === undefined ? {} : { session: session.id }),
    }));
  }

  /** Its own method, or that of the request it answers. */
  get method(): string | undefined {
    return this.message.method ?? this.request?.method;
  }

  /** The id that an answer in its place must have; undefined where nobody waits for one. */
  get answerId(): RequestId | undefined {
    return this.request?.id ?? this.message.id;
  }
}

function reverse(direction: Exchange["direction"]): Exchange["direction"] {
  return direction === "client-to-server" ? "server-to-client" : "client-to-server";
}
