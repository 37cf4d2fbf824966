import type { Exchange } from "../../core/exchange.ts";
import { BoundedMap } from "../../lib/bounded-map.ts";
import type { Diagnostic } from "../../protocol/diagnostics.ts";
import type { HeaderLookup } from "../../protocol/http/mirrored-headers.ts";
import type { Direction, Message } from "../../protocol/message.ts";
import { type Revision, revisions } from "../../protocol/revisions.ts";
import { checkMirroredHeaders } from "../../protocol/validation/semantic.ts";
import { validate, type ValidationSettings } from "../../protocol/validation/validate.ts";
import { DeclaredCapabilities } from "../wiring/declared-capabilities.ts";
import { loadSchemas } from "../../protocol/validation/schema-validator.ts";

/** An observed message and what it belongs to. */
export interface ObservedSubject {
  readonly revision: Revision;
  readonly direction: Direction;
  /** The headers of the HTTP request. */
  readonly header: HeaderLookup;
  /** The exchange of the message; for an answer, that of its request. */
  readonly exchange: Exchange;
  /** The session of the HTTP request, or the one that its response opens. */
  readonly session: string | undefined;
}

/** Sessions whose handshakes are remembered. */
const mostSessions = 1000;

/**
 * Finds what is wrong with a message that has passed. Messages that pass before the schemas are loaded are not checked
 * against them.
 */
export type ObservedValidation = (message: Message, subject: ObservedSubject) => readonly Diagnostic[];

/** Creates the validation of a route in observe mode; nothing is refused, whatever the settings say. */
export function createObservedValidation(settings: ValidationSettings): ObservedValidation {
  const schemas = settings.schema === "off" ? undefined : loadSchemas();
  const declared = new DeclaredCapabilities<string>(new BoundedMap(mostSessions));

  function semantic(message: Message, { revision, header, exchange, session }: ObservedSubject): readonly Diagnostic[] {
    if (exchange.message !== message) return declared.checkAnswer(exchange, message, session);
    const comparesHeaders = message.kind === "request" && revisions[revision].era === "modern";
    return [
      ...(comparesHeaders ? checkMirroredHeaders(message, header) : []),
      ...declared.checkRequest(exchange, session),
    ];
  }

  return (message, subject) => {
    const { revision, direction, exchange } = subject;
    const schema = schemas?.loaded?.get(revision);
    const asked = exchange.message === message ? undefined : exchange.message.method;
    return validate(message, {
      revision,
      direction,
      settings,
      ...(asked === undefined ? {} : { requestMethod: asked }),
      ...(schema === undefined ? {} : { schema }),
      semantic: () => semantic(message, subject),
    }).diagnostics;
  };
}
