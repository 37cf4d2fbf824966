import type { HeaderLookup } from "../../protocol/http/mirrored-headers.ts";
import type { Diagnostic } from "../../protocol/diagnostics.ts";
import type { Direction, Message, RequestMessage } from "../../protocol/message.ts";
import { type Revision, revisions } from "../../protocol/revisions.ts";
import { checkMirroredHeaders } from "../../protocol/validation/semantic.ts";
import { validate, type ValidationSettings } from "../../protocol/validation/validate.ts";
import { loadSchemas } from "../wiring/schemas.ts";

/** An observed message and what it belongs to. */
export interface ObservedSubject {
  readonly revision: Revision;
  readonly direction: Direction;
  /** The headers of the HTTP request. */
  readonly header: HeaderLookup;
  /** The request that a response answers, where it was seen. */
  readonly request: RequestMessage | undefined;
}

/** Finds what is wrong with a message that has passed. Messages that pass before the schemas are loaded are not compared with them. */
export type ObservedValidation = (message: Message, subject: ObservedSubject) => readonly Diagnostic[];

/** Creates the validation of a route in observe mode; nothing is refused, whatever the settings say. */
export function createObservedValidation(settings: ValidationSettings): ObservedValidation {
  const schemas = settings.schema === "off" ? undefined : loadSchemas();
  return (message, { revision, direction, header, request }) => {
    const schema = schemas?.loaded?.get(revision);
    const comparesHeaders = message.kind === "request" && revisions[revision].era === "modern";
    return validate(message, {
      revision,
      direction,
      settings,
      ...(request === undefined ? {} : { requestMethod: request.method }),
      ...(schema === undefined ? {} : { schema }),
      semantic: () => (comparesHeaders ? checkMirroredHeaders(message, header) : []),
    }).diagnostics;
  };
}
