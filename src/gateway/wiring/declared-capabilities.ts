import type { Exchange } from "../../core/exchange.ts";
import { BoundedMap } from "../../lib/bounded-map.ts";
import { isObject } from "../../lib/is-object.ts";
import type { Diagnostic } from "../../protocol/diagnostics.ts";
import { parseEnvelope } from "../../protocol/envelope.ts";
import { memberValue } from "../../protocol/json/read.ts";
import type { Message } from "../../protocol/message.ts";
import type { Capabilities } from "../../protocol/methods.ts";
import { newestLegacy } from "../../protocol/revisions.ts";
import { checkCapability, checkInputRequired } from "../../protocol/validation/semantic.ts";

/** The capabilities that both sides of a session declared in their handshake. */
interface Handshake {
  readonly client: Capabilities;
  readonly server: Capabilities;
}

/** Where handshakes are kept: as long as their sessions, or as many as there is room for. */
interface HandshakeMap<Session> {
  get(session: Session): Handshake | undefined;
  set(session: Session, handshake: Handshake): unknown;
}

/** Callers whose server's last declaration is remembered. */
const mostCallers = 1000;

const none: readonly Diagnostic[] = Object.freeze([]);

/**
 * The capabilities that clients and servers of a route declared, and checks of what they then ask of each other
 * (SC-028). A legacy session declares it in its handshake. A modern client declares it with each request, its server in
 * the answer to `server/discover`; until that was seen, nothing is known.
 */
export class DeclaredCapabilities<Session> {
  readonly #handshakes: HandshakeMap<Session>;
  /** What the server declared last outside of sessions, by caller: servers may differ between them. */
  #servers = new BoundedMap<string, Capabilities>(mostCallers);

  constructor(handshakes: HandshakeMap<Session>) {
    this.#handshakes = handshakes;
  }

  /** Forgets what the server declared outside of sessions: it was replaced. */
  forgetServer(): void {
    this.#servers = new BoundedMap(mostCallers);
  }

  /** Whether the receiver of a request declared what the request needs. */
  checkRequest(exchange: Exchange, session: Session | undefined): readonly Diagnostic[] {
    const { message, revision, era, direction } = exchange;
    if (message.kind !== "request") return none;
    const declared = this.#receiverOf(exchange, session);
    // A modern client takes no requests: this one comes from a legacy server behind a bridge.
    const spoken = direction === "server-to-client" && era === "modern" ? newestLegacy : revision;
    return declared === undefined ? none : checkCapability(message, declared, spoken);
  }

  /** Learns from the answer to a request, and checks whether it may ask for input. */
  checkAnswer(exchange: Exchange, answer: Message, session: Session | undefined): readonly Diagnostic[] {
    const { message: request, principal } = exchange;
    if (answer.kind !== "result" || request.kind !== "request") return none;
    if (request.method === "initialize" || request.method === "server/discover") {
      const server = capabilitiesIn(memberValue(answer, "result"));
      const client = capabilitiesIn(memberValue(request, "params"));
      if (session === undefined) this.#servers.set(principal.id, server);
      else this.#handshakes.set(session, { client, server });
    }
    if (exchange.era !== "modern") return none;
    return checkInputRequired(answer, { method: request.method, capabilities: envelopeCapabilities(request) ?? {} });
  }

  /** What the receiver of a request declared; undefined where that is unknown. */
  #receiverOf({ direction, parent, principal }: Exchange, session: Session | undefined): Capabilities | undefined {
    const handshake = session === undefined ? undefined : this.#handshakes.get(session);
    if (direction === "server-to-client") return handshake?.client ?? envelopeCapabilities(parent?.message);
    return session === undefined ? this.#servers.touch(principal.id) : handshake?.server;
  }
}

function capabilitiesIn(value: unknown): Capabilities {
  return isObject(value) && isObject(value["capabilities"]) ? value["capabilities"] : {};
}

/** The capabilities that a modern request declares. */
function envelopeCapabilities(request: Message | undefined): Capabilities | undefined {
  if (request?.kind !== "request") return undefined;
  const parsed = parseEnvelope(request);
  // The parser has ensured that this is an object.
  return parsed.ok ? (JSON.parse(parsed.envelope.clientCapabilities) as Capabilities) : undefined;
}
