import type { Exchange } from "../../core/exchange.ts";
import { type Guard, type Interceptor, identityInterceptor } from "../../core/pipeline.ts";
import { GatewayError } from "../../errors.ts";
import type { Diagnostic } from "../../protocol/diagnostics.ts";
import { type Direction, type Message, reverseDirection } from "../../protocol/message.ts";
import { newestLegacy, type Revision, revisions } from "../../protocol/revisions.ts";
import { validate, type ValidationContext, type ValidationSettings } from "../../protocol/validation/validate.ts";
import { loadSchemas } from "../wiring/schemas.ts";
import type { SemanticChecks } from "./semantic-checks.ts";

/** The steps that validate the messages of a route. Both guards judge what goes on, after everything that may change it. */
export interface MessageValidation {
  /** Waits until the schemas are loaded; does nothing where none are needed. */
  readonly schemasLoaded: Interceptor;
  /** The innermost step before the message is tracked and sent: judges requests and notifications of both sides. */
  readonly messages: Guard;
  /** Stands outside of interceptors and policy: judges the answers that they leave. */
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
        // With an unknown name the message would have come as far as to be judged itself.
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
