import { GatewayError } from "../errors.ts";
import type { Exchange } from "../exchange.ts";
import type { Reply } from "../pipeline.ts";
import type { Message } from "../protocol/message.ts";
import type { Session } from "../sessions/session.ts";
import type { WireObserver } from "./taps.ts";

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
