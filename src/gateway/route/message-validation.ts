import type { Exchange } from "../../core/exchange.ts";
import { type Guard, identityInterceptor, type Interceptor } from "../../core/pipeline.ts";
import { GatewayError } from "../../errors.ts";
import { type Diagnostic, diagnosticTable } from "../../protocol/diagnostics.ts";
import { type Direction, type Message, reverseDirection } from "../../protocol/message.ts";
import { metadataOf } from "../../protocol/metadata.ts";
import { hasWrongKind } from "../../protocol/methods.ts";
import { newestLegacy, type Revision, revisions } from "../../protocol/revisions.ts";
import { checkIdReuse } from "../../protocol/validation/semantic.ts";
import { validate, type ValidationContext, type ValidationSettings } from "../../protocol/validation/validate.ts";
import type { SessionRegistry } from "../../sessions/registry.ts";
import type { Session } from "../../sessions/session.ts";
import { DeclaredCapabilities } from "../wiring/declared-capabilities.ts";
import { loadSchemas } from "../../protocol/validation/schema-validator.ts";
import type { WireObserver } from "../wiring/wire-observer.ts";

/**
 * The steps that validate the messages of a route. Both guards check the message that is forwarded, after everything
 * that may change it.
 */
export interface MessageValidation {
  /** Waits until the schemas are loaded; does nothing where none are needed. */
  readonly schemasLoaded: Interceptor;
  /** The innermost step before the message is tracked and sent: checks requests and notifications of both sides. */
  readonly messages: Guard;
  /** Runs outside interceptors and policy: checks the answers that they return. */
  readonly answers: Guard;
}

export interface MessageValidationDeps {
  readonly semantic: SemanticChecks;
  /** Takes findings, whether they refuse the message or not. */
  readonly onDiagnostics: (exchange: Exchange, diagnostics: readonly Diagnostic[]) => void;
}

/** Creates the validation of a route (SC-025 to SC-028). */
export function createMessageValidation(settings: ValidationSettings, deps: MessageValidationDeps): MessageValidation {
  const schemas = settings.schema === "off" ? undefined : loadSchemas();
  const semantic = settings.semantic === "off" ? undefined : deps.semantic;

  function problemOf(
    exchange: Exchange,
    message: Message,
    direction: Direction,
    requestMethod: string | undefined,
    checkSemantics: ValidationContext["semantic"],
  ): GatewayError | undefined {
    const revision = revisionOf(exchange);
    const schema = schemas?.loaded?.get(revision);
    const { diagnostics, response } = validate(message, {
      revision,
      direction,
      settings,
      requestMethod,
      schema,
      semantic: checkSemantics,
    });
    if (diagnostics.length > 0) deps.onDiagnostics(exchange, diagnostics);
    if (response === undefined) return undefined;
    const { error, message: text, data } = response;
    return new GatewayError(error, text, data === undefined ? {} : { details: data });
  }

  const messageProblem = (exchange: Exchange): GatewayError | undefined =>
    problemOf(
      exchange,
      exchange.message,
      exchange.direction,
      undefined,
      semantic && (() => semantic.ofMessage(exchange)),
    );

  return {
    schemasLoaded:
      schemas === undefined
        ? identityInterceptor
        : (next) => async (exchange) => {
            if (schemas.loaded === undefined) await schemas.loading;
            return next(exchange);
          },
    messages: {
      enter: messageProblem,
      answered: (_exchange, reply) => reply,
      failed: () => {},
    },
    answers: {
      enter: () => undefined,
      answered: (exchange, reply) => {
        const { message: answer } = reply;
        const { message: request } = exchange;
        if (answer === undefined || request.kind !== "request") return reply;
        // A message with an unknown name would only be compared with itself.
        const problem =
          reply.isHidden === true
            ? messageProblem(exchange)
            : problemOf(
                exchange,
                answer,
                reverseDirection(exchange.direction),
                request.method,
                semantic && (() => semantic.ofAnswer(exchange, answer)),
              );
        if (problem !== undefined) throw problem;
        return reply;
      },
      failed: () => {},
    },
  };
}

/** Modern clients take no requests, so one on its way there comes from a legacy server behind a bridge. */
function revisionOf({ direction, message, revision }: Exchange): Revision {
  const isBridged =
    direction === "server-to-client" && message.kind === "request" && !revisions[revision].serverRequests;
  return isBridged ? newestLegacy : revision;
}

/**
 * Creates the guard that refuses request methods without an id, and names of notifications with one, in both directions. Code
 * that looks at the id and code that looks at the name would take such a message for different things: it would pass the checks of
 * one kind and be executed as the other.
 */
export function createMessageKinds(observer: Pick<WireObserver, "found">): Guard {
  return {
    enter: (exchange) => {
      const { kind, method } = exchange.message;
      if (method === undefined || !hasWrongKind(kind, method)) return undefined;
      observer.found(diagnosticTable["method.wrong-kind"], exchange);
      return new GatewayError("invalid_message", kind === "request" ? notificationWithId : requestWithoutId);
    },
    answered: (_exchange, reply) => reply,
    failed: () => {},
  };
}

const notificationWithId = "the method is a notification; send it without an id";
const requestWithoutId = "the method is a request; send it with an id";

/**
 * The checks that depend on earlier messages (SC-028). Progress, cancellation and stray answers are checked where
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
