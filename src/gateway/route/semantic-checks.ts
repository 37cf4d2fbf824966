import type { Exchange } from "../../core/exchange.ts";
import type { Diagnostic } from "../../protocol/diagnostics.ts";
import type { Message } from "../../protocol/message.ts";
import { metadataOf } from "../../protocol/metadata.ts";
import { checkIdReuse } from "../../protocol/validation/semantic.ts";
import type { SessionRegistry } from "../../sessions/registry.ts";
import type { Session } from "../../sessions/session.ts";
import { DeclaredCapabilities } from "../wiring/declared-capabilities.ts";

/**
 * The checks that need to know what was said before (SC-028). Progress, cancellation and stray answers are checked where
 * they are matched, in `sessions/pending`.
 */
export interface SemanticChecks {
  ofMessage(exchange: Exchange): readonly Diagnostic[];
  /** The answer to the request of an exchange. */
  ofAnswer(exchange: Exchange, answer: Message): readonly Diagnostic[];
  /** The server of the route was replaced. */
  forgetServer(): void;
}

/** Creates the checks of a route. They last as long as its sessions. */
export function createSemanticChecks(
  registry: SessionRegistry,
  isInFlight: (exchange: Exchange) => boolean,
): SemanticChecks {
  const declared = new DeclaredCapabilities<Session>(new WeakMap());
  return {
    ofMessage: (exchange) => {
      const { message, revision } = exchange;
      const { diagnostics } = metadataOf(message);
      if (message.kind !== "request") return diagnostics;
      return [
        ...diagnostics,
        ...checkIdReuse(message, { isInFlight: isInFlight(exchange), wasUsed: false }, revision),
        ...declared.checkRequest(exchange, registry.forContext(exchange.session)),
      ];
    },
    ofAnswer: (exchange, answer) => [
      ...metadataOf(answer).diagnostics,
      ...declared.checkAnswer(exchange, answer, registry.forContext(exchange.session)),
    ],
    forgetServer: () => {
      declared.forgetServer();
    },
  };
}
