import type { GatewayError } from "../errors.ts";
import type { Exchange } from "../exchange.ts";
import type { Reply } from "../pipeline.ts";
import type { Message } from "../protocol/message.ts";
import { gatewayErrorMessage } from "../reply.ts";
import type { UpstreamLink } from "../transports/transport.ts";
import type { Tap } from "./taps.ts";

/** What hears of an answer on its way. */
export interface AnswerDeps {
  readonly tap: Tap;
  /** Logs and counts a failure; the answer is the error to tell. */
  readonly failed: (exchange: Exchange, error: unknown) => GatewayError;
}

/** Takes the outcome of a server's question back to it, an error where there is no answer. */
export function answerUpstream(
  link: UpstreamLink,
  exchange: Exchange,
  message: Message,
  outcome: Promise<Reply>,
  { tap, failed }: AnswerDeps,
): void {
  outcome
    .catch((error: unknown): Reply => {
      const failure = failed(exchange, error);
      const code = failure.facts.jsonrpc ?? -32603;
      return { message: gatewayErrorMessage(exchange, message.id, failure, code) };
    })
    .then(async (reply) => {
      if (reply.message === undefined) return;
      tap.sent("upstream", reply.message, exchange);
      const response: Exchange = {
        ...exchange,
        direction: "client-to-server",
        message: reply.message,
        original: reply.message,
      };
      await link.send(response);
    })
    .catch((error: unknown) => {
      failed(exchange, error);
    });
}
