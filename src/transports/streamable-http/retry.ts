import { defaultLimits, type Message, messageBytes } from "../../protocol/message.ts";
import { createExchange } from "../../core/exchange.ts";
import { type Exchange } from "../../core/exchange.ts";
import { parse } from "../../protocol/parse.ts";
import { GatewayError } from "../../errors.ts";

/**
 * Methods that may be sent again if the connection broke before a response began. Not `tools/call`, nor responses to the
 * server: the first attempt may have been carried out.
 */
const retryableMethods: ReadonlySet<string> = new Set([
  "initialize",
  "ping",
  "server/discover",
  "tools/list",
  "prompts/list",
  "prompts/get",
  "resources/list",
  "resources/templates/list",
  "resources/read",
  "completion/complete",
  "logging/setLevel",
  "tasks/get",
  "tasks/list",
]);

/** Errors of a connection that could not be made: trying again at once would not help. */
const connectErrors: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/**
 * Whether to send a request once more whose connection broke before a response began. Most often the upstream has just
 * closed an idle keep-alive connection.
 */
export function isRetryable(message: Message, error: Error): boolean {
  const code: unknown = Reflect.get(Object(error.cause), "code");
  if (typeof code === "string" && connectErrors.has(code)) return false;
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
    const message = this.#message();
    return createExchange({ ...this.#facts, message, timing: { startedAt: 0, wallTime: 0 } });
  }

  #message(): Message {
    const bytes = Buffer.from(this.#text, "latin1");
    const limits = { ...defaultLimits, maxBytes: bytes.length, maxDepth: Number.MAX_SAFE_INTEGER };
    const outcome = parse(bytes, { revision: this.#facts.revision, mode: "enforce", limits });
    if (outcome.ok && outcome.form === "single") return outcome.message;
    throw new TypeError("a stored message does not parse");
  }
}

/** The upstream does not know the session any more. The link repeats the handshake; only it handles this error. */
export class SessionLostError extends GatewayError {
  readonly session: string;
  constructor(session: string) {
    super("upstream_unreachable", "the upstream has lost the session");
    this.session = session;
  }
}
