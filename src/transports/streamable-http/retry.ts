import { defaultLimits, type Message, messageBytes } from "../../protocol/message.ts";
import { createExchange } from "../../core/exchange.ts";
import { type Exchange } from "../../core/exchange.ts";
import { parse } from "../../protocol/parse.ts";
import { GatewayError } from "../../errors.ts";

/**
 * Methods that may be sent again when a connection died before any byte of an answer came: they read, or they shake
 * hands. `tools/call` and answers to the server are not among them: the first try may have been carried out.
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

/** Errors that say that nothing was sent at all: the connection itself was refused or could not be made. */
const connectErrors: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/**
 * The rule for a request whose connection died before an answer began, most often a keep-alive socket that the
 * upstream closed just then: sent once more if its method may be repeated; anything else is reported.
 */
export function isRetryable(message: Message, error: Error): boolean {
  const code: unknown = Reflect.get(Object(error.cause), "code");
  if (typeof code === "string" && connectErrors.has(code)) return false;
  return message.method !== undefined && retryableMethods.has(message.method);
}

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
    return createExchange({ ...this.#facts, message, timing: { startedAt: 0, wallTime: 0 } });
  }

  #message(): Message {
    const bytes = Buffer.from(this.#text, "latin1");
    const limits = { ...defaultLimits, maxBytes: bytes.length, maxDepth: Number.MAX_SAFE_INTEGER };
    const outcome = parse(bytes, { revision: this.#facts.revision, mode: "enforce", limits });
    if (outcome.ok && outcome.form === "single") return outcome.message;
    throw new TypeError("a message that was sent before is none any more");
  }
}

/** The upstream answered that it does not know the session. The link shakes hands anew; nobody else sees this. */
export class SessionLostError extends GatewayError {
  readonly session: string;
  constructor(session: string) {
    super("upstream_unreachable", "the upstream has forgotten the session");
    this.session = session;
  }
}
