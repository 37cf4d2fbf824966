import type { ErrorCode } from "../../errors.ts";
import { isObject } from "../../lib/is-object.ts";
import { createDiagnostic, type Diagnostic, diagnosticTable } from "../diagnostics.ts";
import { type Direction, errorResponse, type ErrorResponse, isMethodMessage, type Message } from "../message.ts";
import { methodStatus } from "../methods.ts";
import { type Revision, revisions } from "../revisions.ts";
import type { SchemaValidator } from "./schema-validator.ts";

/** The levels of validation, each of which needs more knowledge than the one before. */
export const validationLevels = ["envelope", "method", "schema", "semantic"] as const;
/** One of the levels. */
export type ValidationLevel = (typeof validationLevels)[number];

/** Whether a level is checked, and whether its findings reject the message. */
export type LevelSetting = "off" | "warn" | "enforce";

/** A setting for each level. */
export type ValidationSettings = Readonly<Record<ValidationLevel, LevelSetting>>;

/** What is known about a message besides its bytes. */
export interface ValidationContext {
  /** Of an unknown revision only the envelope is checked. */
  readonly revision: Revision | "unknown";
  readonly direction: Direction;
  readonly settings: ValidationSettings;
  /** The method of the request that a response answers. */
  readonly requestMethod?: string;
  /** Needed by the schema level. */
  readonly schema?: SchemaValidator;
  /** Runs the semantic checks, which need state that only the caller has. */
  readonly semantic?: () => readonly Diagnostic[];
}

/** What was found, and the error response if an enforced level found something. */
export interface ValidationReport {
  readonly diagnostics: readonly Diagnostic[];
  readonly response: ErrorResponse | undefined;
}

const allOff: ValidationSettings = { envelope: "off", method: "off", schema: "off", semantic: "off" };

/** The settings of a route. In `enforce` mode the envelope is always enforced; in `observe` it defaults to `warn` (SC-025). */
export function validationSettings(
  mode: "enforce" | "observe",
  chosen: Partial<ValidationSettings> = {},
): ValidationSettings {
  if (mode === "observe") return { ...allOff, envelope: "warn", ...chosen };
  return { ...allOff, ...chosen, envelope: "enforce" };
}

/**
 * Checks a message at every level that is on. The first enforced level with a finding gives the error response.
 *
 * @example
 * const settings = validationSettings("enforce", { method: "warn" });
 * validate(message, { revision: "2025-11-25", direction: "client-to-server", settings });
 * // { diagnostics: [{ code: "method.unknown", … }], response: undefined }
 */
export function validate(message: Message, context: ValidationContext): ValidationReport {
  const diagnostics: Diagnostic[] = [];
  for (const level of validationLevels) {
    const setting = context.settings[level];
    if (setting === "off") continue;
    const [first, ...others] = findingsAt(level, message, context);
    if (first === undefined) continue;
    if (setting === "warn") {
      diagnostics.push(first, ...others);
      continue;
    }
    diagnostics.push(...[first, ...others].map((one) => ({ ...one, severity: "error" as const })));
    const response = responseAt(level, message, context, [first, ...others]);
    if (response !== undefined) return { diagnostics, response };
  }
  return { diagnostics, response: undefined };
}

function findingsAt(level: ValidationLevel, message: Message, context: ValidationContext): readonly Diagnostic[] {
  const { revision, direction } = context;
  if (level === "envelope") return checkDirection(message, revision, direction);
  if (level === "semantic") return context.semantic?.() ?? [];
  if (revision === "unknown") return [];
  if (level === "method") return checkMethod(message, revision, direction);
  return context.schema?.check(message, context.requestMethod) ?? [];
}

/** In the modern era only clients send requests, and only servers send responses (MCP 2026-07-28, Overview). */
function checkDirection(message: Message, revision: Revision | "unknown", direction: Direction): readonly Diagnostic[] {
  if (revision === "unknown" || revisions[revision].serverRequests) return [];
  const isResponse = message.kind === "result" || message.kind === "error";
  if (isResponse && direction === "client-to-server") {
    return [diagnosticTable["direction.response"]];
  }
  if (message.kind === "request" && direction === "server-to-client") {
    return [diagnosticTable["direction.request"]];
  }
  return [];
}

/** Checks that the revision has the method, as this kind of message and in this direction. */
function checkMethod(message: Message, revision: Revision, direction: Direction): readonly Diagnostic[] {
  if (!isMethodMessage(message)) return [];
  const { method, kind } = message;
  const status = methodStatus(method, revision, direction, kind);
  if (status === "known") return [];
  const name = JSON.stringify(method);
  const messages = {
    unknown: `this revision has no ${kind} ${name}`,
    "wrong-direction": `${name} must not be sent in this direction`,
    "wrong-kind": `${name} must not be sent as a ${kind}`,
  };
  return [createDiagnostic(`method.${status}`, messages[status])];
}

/** The error for a semantic finding; findings without a row here never reject a message. */
const semanticErrors: ReadonlyMap<string, ErrorCode> = new Map([
  ["id.in-flight", "invalid_message"],
  ["header.mismatch", "header_mismatch"],
  ["capability.missing", "method_not_found"],
  ["retry.state", "invalid_params"],
  ["retry.rounds", "invalid_params"],
  ["input.not-allowed", "upstream_invalid"],
  ["input.empty", "upstream_invalid"],
  ["input.method", "upstream_invalid"],
  ["input.capability", "upstream_invalid"],
]);

function responseAt(
  level: ValidationLevel,
  message: Message,
  { revision, direction }: ValidationContext,
  findings: readonly [Diagnostic, ...Diagnostic[]],
): ErrorResponse | undefined {
  // The id of a response belongs to the other side; an error that echoed it would answer the wrong request.
  const hasMethod = isMethodMessage(message);
  const id = hasMethod ? message.id : undefined;
  const answer = (error: ErrorCode, { message: text, data }: Diagnostic): ErrorResponse => {
    const isUnknownMethod = error === "method_not_found" && revision !== "unknown";
    const isOtherCase = isUnknownMethod && revisions[revision].unknownMethodStatus === 404;
    return errorResponse(error, text, {
      id,
      useAlternateStatus: isOtherCase,
      ...(isObject(data) ? { data } : {}),
    });
  };
  const [first] = findings;
  if (level === "envelope") return answer("invalid_message", first);
  if (level === "method") return answer("method_not_found", first);
  if (level === "schema") {
    const list = findings.map(({ path, message: text }) => ({ path, message: text }));
    const summary = { ...first, data: { findings: list } };
    if (hasMethod) return answer("invalid_params", summary);
    return answer(direction === "server-to-client" ? "upstream_invalid" : "invalid_message", summary);
  }
  for (const finding of findings) {
    const error = semanticErrors.get(finding.code);
    if (error !== undefined) return answer(error, finding);
  }
  return undefined;
}
