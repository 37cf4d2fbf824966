import { Cancellation } from "../../exchange.ts";
import type { Exchange } from "../../exchange.ts";
import { messageBytes } from "../../protocol/batch.ts";
import { defaultLimits } from "../../protocol/message.ts";
import type { Message } from "../../protocol/message.ts";
import { parse } from "../../protocol/parse.ts";

/**
 * An exchange that may have to be sent again much later, kept as little as possible. The exchange itself must not be
 * kept: with it stay the HTTP request that it came in and its answer, and of a thousand sessions so many that the garbage
 * collector takes all exchanges for long-lived ones, which makes every later message cost twice as much.
 */
export class ReplayableRequest {
  readonly #text: string;
  readonly #facts: Pick<
    Exchange,
    "id" | "direction" | "route" | "principal" | "revision" | "era" | "session" | "transport"
  >;

  constructor(exchange: Exchange) {
    const { id, direction, route, principal, revision, era, session, transport: from } = exchange;
    // Headers of the client that are passed on go with it again.
    const transport = from.type === "http" ? { ...from, headers: { ...from.headers } } : from;
    this.#text = messageBytes(exchange.message).toString("latin1");
    this.#facts = { id, direction, route, principal, revision, era, session, transport };
  }

  /** The exchange anew, without anybody who waits for what comes of it. */
  toExchange(): Exchange {
    const message = this.#message();
    return {
      ...this.#facts,
      message,
      original: message,
      timing: { startedAt: 0, wallTime: 0 },
      parent: undefined,
      cancellation: new Cancellation(),
      tracking: { entry: undefined },
      reply: undefined,
    };
  }

  #message(): Message {
    const bytes = Buffer.from(this.#text, "latin1");
    const limits = { ...defaultLimits, maxBytes: bytes.length, maxDepth: Number.MAX_SAFE_INTEGER };
    const outcome = parse(bytes, { revision: this.#facts.revision, mode: "enforce", limits });
    if (outcome.ok && outcome.form === "single") return outcome.message;
    throw new TypeError("a message that was sent before is none any more");
  }
}
