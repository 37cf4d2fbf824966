import { GatewayError } from "../../errors.ts";
import type { Exchange } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import type { Message } from "../../protocol/message.ts";
import type { Session } from "../../sessions/session.ts";
import type { WireObserver } from "../wiring/wire-observer.ts";
import { gatewayErrorMessage } from "../../core/reply.ts";
import type { UpstreamLink } from "../../transports/transport.ts";

/** Where messages go that belong to no request of the client. */
export type ClientSender = (message: Message) => void | Promise<void>;

/** Puts a request of the server to the client and waits for what it says. */
export function askClient(
  tap: WireObserver,
  session: Session,
  exchange: Exchange,
  message: Message & { kind: "request" },
  outlet: ClientSender,
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const offEnd = session.onEnd(() => {
      exchange.cancellation.cancel("session-ended");
    });
    const giveUp = session.awaitResponse(message.id, (said) => {
      over();
      tap.received("client", said, exchange);
      resolve({ message: said });
    });
    const offCancel = exchange.cancellation.onCancel((reason) => {
      over();
      reject(new GatewayError("cancelled", `the question was not answered (${reason})`));
    });
    const over = () => {
      offEnd();
      giveUp();
      offCancel();
    };
    Promise.resolve(outlet(message)).catch((error: unknown) => {
      over();
      reject(GatewayError.from(error));
    });
  });
}

/** What hears of an answer on its way. */
export interface AnswerUpstreamDeps {
  readonly observer: WireObserver;
  /** Logs and counts a failure; the answer is the error to tell. */
  readonly failed: (exchange: Exchange, error: unknown) => GatewayError;
}

/**
 * Takes the outcome of a server's question back to it, an error where there is no answer. Until then as little waits as
 * can: there may be thousands of questions, each for as long as a person thinks.
 */
export function answerUpstream(
  link: UpstreamLink,
  exchange: Exchange,
  message: Message,
  outcome: Promise<Reply>,
  { observer: tap, failed }: AnswerUpstreamDeps,
): void {
  outcome.then(
    (reply) => sendAnswer(link, exchange, () => reply, { observer: tap, failed }),
    (error: unknown) => {
      const refusal = (): Reply => {
        const failure = failed(exchange, error);
        const code = failure.facts.jsonrpc ?? -32603;
        return { message: gatewayErrorMessage(exchange, message.id, failure, code) };
      };
      return sendAnswer(link, exchange, refusal, { observer: tap, failed });
    },
  );
}

async function sendAnswer(
  link: UpstreamLink,
  exchange: Exchange,
  made: () => Reply,
  { observer: tap, failed }: AnswerUpstreamDeps,
): Promise<void> {
  try {
    const { message } = made();
    if (message === undefined) return;
    tap.sent("upstream", message, exchange);
    await link.send({ ...exchange, direction: "client-to-server", message, original: message });
  } catch (error) {
    failed(exchange, error);
  }
}
