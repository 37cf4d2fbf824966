import { createExchange, type Exchange } from "../../core/exchange.ts";
import { synthesizeMessage } from "../../core/synthesize.ts";
import { GatewayError } from "../../errors.ts";
import { thrownCode } from "../../lib/thrown-message.ts";
import { type Message, messageBytes } from "../../protocol/message.ts";

/**
 * Methods that may be sent again if the connection broke before a response began. Not `tools/call`, nor responses to the
 * server: the first attempt may have been carried out.
 */
const retryableMethods: ReadonlySet<string> = new Set(
  (
    "initialize ping server/discover tools/list prompts/list prompts/get resources/list resources/templates/list " +
    "resources/read completion/complete logging/setLevel tasks/get tasks/list"
  ).split(" "),
);

/** Errors of a connection that could not be made: trying again at once would not help. */
const connectErrors: ReadonlySet<unknown> = new Set(
  "ECONNREFUSED ENOTFOUND EAI_AGAIN UND_ERR_CONNECT_TIMEOUT".split(" "),
);

/**
 * Whether to send a request once more whose connection broke before a response began. Most often the upstream has just
 * closed an idle keep-alive connection.
 */
export function isRetryable(message: Message, error: Error): boolean {
  if (connectErrors.has(thrownCode(error.cause))) return false;
  return message.method !== undefined && retryableMethods.has(message.method);
}

/**
 * A message of the handshake, kept to be sent again after the upstream lost the session. It does not keep the exchange:
 * that would retain the HTTP request and response, and with a thousand sessions the garbage collector would treat all
 * exchanges as long-lived, which doubles the cost of every message. Needed by bench load: "idle session".
 */
export class ReplayableRequest {
  readonly #text: string;
  readonly #facts: Pick<
    Exchange,
    "id" | "direction" | "route" | "principal" | "revision" | "era" | "session" | "transport"
  >;

  constructor(exchange: Exchange) {
    const { id, direction, route, principal, revision, era, session, transport: from } = exchange;
    // Forwarded headers of the client are sent again too.
    const transport = from.type === "http" ? { ...from, headers: { ...from.headers } } : from;
    this.#text = messageBytes(exchange.message).toString("latin1");
    this.#facts = { id, direction, route, principal, revision, era, session, transport };
  }

  /** A new exchange that no client waits for. */
  toExchange(): Exchange {
    const message = synthesizeMessage(Buffer.from(this.#text, "latin1"));
    return createExchange({ ...this.#facts, message, timing: { startedAt: 0, wallTime: 0 } });
  }
}

/** The upstream has lost the session. The link repeats the handshake; only it handles this error. */
export class SessionLostError extends GatewayError {
  readonly session: string;
  constructor(session: string) {
    super("upstream_unreachable", "the upstream has lost the session");
    this.session = session;
  }
}
