import type { Exchange } from "../../core/exchange.ts";
import { isObject } from "../../lib/is-object.ts";
import { parseEnvelope } from "../../protocol/envelope.ts";
import { memberValue } from "../../protocol/json/read.ts";
import type { Diagnostic } from "../../protocol/diagnostics.ts";
import type { Message } from "../../protocol/message.ts";
import type { Capabilities } from "../../protocol/methods.ts";
import { newestLegacy } from "../../protocol/revisions.ts";
import { checkCapability, checkIdReuse, checkInputRequired } from "../../protocol/validation/semantic.ts";
import type { SessionRegistry } from "../../sessions/registry.ts";
import type { Session } from "../../sessions/session.ts";

/**
 * The checks that need to know what was said before (SC-028). Progress, cancellation and stray answers are checked where
 * they are matched, in `sessions/pending`.
 */
export interface SemanticChecks {
  ofMessage(exchange: Exchange): readonly Diagnostic[];
  /** The answer to the request of an exchange. */
  ofAnswer(exchange: Exchange, answer: Message): readonly Diagnostic[];
}

/** What both sides of a session declared in their handshake. */
interface Handshake {
  readonly client: Capabilities;
  readonly server: Capabilities;
}

const none: readonly Diagnostic[] = Object.freeze([]);

/** Creates the checks of a route. They last as long as its sessions. */
export function createSemanticChecks(
  registry: SessionRegistry,
  isInFlight: (exchange: Exchange) => boolean,
): SemanticChecks {
  const handshakes = new WeakMap<Session, Handshake>();

  /** What the receiver of a request declared; undefined where that is unknown. */
  function receiverOf(exchange: Exchange): Capabilities | undefined {
    const session = registry.forContext(exchange.session);
    const handshake = session === undefined ? undefined : handshakes.get(session);
    if (exchange.direction === "client-to-server") return handshake?.server;
    return handshake?.client ?? envelopeCapabilities(exchange.parent?.message);
  }

  return {
    ofMessage: (exchange) => {
      const { message, revision, era, direction } = exchange;
      if (message.kind !== "request") return none;
      const declared = receiverOf(exchange);
      const spoken = direction === "server-to-client" && era === "modern" ? newestLegacy : revision;
      return [
        ...checkIdReuse(message, { isInFlight: isInFlight(exchange), wasUsed: false }, revision),
        ...(declared === undefined ? none : checkCapability(message, declared, spoken)),
      ];
    },
    ofAnswer: (exchange, answer) => {
      const { message: request } = exchange;
      if (answer.kind !== "result" || request.kind !== "request") return none;
      const session = request.method === "initialize" ? registry.forContext(exchange.session) : undefined;
      if (session !== undefined) {
        handshakes.set(session, {
          client: capabilitiesIn(memberValue(request, "params")),
          server: capabilitiesIn(memberValue(answer, "result")),
        });
      }
      if (exchange.era !== "modern") return none;
      const capabilities = envelopeCapabilities(request) ?? {};
      return checkInputRequired(answer, { method: request.method, capabilities });
    },
  };
}

function capabilitiesIn(value: unknown): Capabilities {
  return isObject(value) && isObject(value["capabilities"]) ? value["capabilities"] : {};
}

/** The capabilities that a modern request declares. */
function envelopeCapabilities(request: Message | undefined): Capabilities | undefined {
  if (request?.kind !== "request") return undefined;
  const parsed = parseEnvelope(request);
  // The parser has made sure that this is an object.
  return parsed.ok ? (JSON.parse(parsed.envelope.clientCapabilities) as Capabilities) : undefined;
}
