import type { ErrorCode } from "../../errors.ts";
import type { Diagnostic, Direction, Message } from "../message.ts";
import { methodStatus } from "../methods.ts";
import { errorResponse, type ErrorResponse } from "../error-response.ts";
import { type Revision, revisions } from "../revisions.ts";
import type { SchemaValidator } from "./schema-validator.ts";

/** The levels at which a message can be judged, each by more knowledge than the one before. */
export const validationLevels = ["envelope", "method", "schema", "semantic"] as const;
/** One of the levels. */
export type ValidationLevel = (typeof validationLevels)[number];

/** Whether a level looks at all, and what its findings lead to. */
export type LevelSetting = "off" | "warn" | "enforce";

/** A setting for each level. */
export type ValidationSettings = Readonly<Record<ValidationLevel, LevelSetting>>;

/** What is known of a message besides itself. */
export interface ValidationContext {
  /** An unknown revision is judged by the envelope alone. */
  readonly revision: Revision | "unknown";
  readonly direction: Direction;
  readonly settings: ValidationSettings;
  /** The method of the request that a response answers. */
  readonly requestMethod?: string;
  /** Needed by the schema level. */
  readonly schema?: SchemaValidator;
  /** Runs the checks of the semantic level, with what only the caller knows. */
  readonly semantic?: () => readonly Diagnostic[];
}

/** What was found, and the refusal that an enforcing level makes of it. */
export interface ValidationReport {
  readonly diagnostics: readonly Diagnostic[];
  readonly refusal: ErrorResponse | undefined;
}

const allOff: ValidationSettings = { envelope: "off", method: "off", schema: "off", semantic: "off" };

/**
 * The settings of a route: an observing one warns about envelopes unless told otherwise; the gateway proper enforces
 * the envelope whatever it is told (SC-025).
 */
export function validationSettings(
  mode: "enforce" | "observe",
  chosen: Partial<ValidationSettings> = {},
): ValidationSettings {
  if (mode === "observe") return { ...allOff, envelope: "warn", ...chosen };
  return { ...allOff, ...chosen, envelope: "enforce" };
}

/** Judges a parsed message at every level that is on; the first enforcing level with a finding refuses it. */
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
    const refusal = refusalAt(level, message, context, [first, ...others]);
    if (refusal !== undefined) return { diagnostics, refusal };
  }
  return { diagnostics, refusal: undefined };
}

function findingsAt(level: ValidationLevel, message: Message, context: ValidationContext): readonly Diagnostic[] {
  const { revision, direction } = context;
  if (level === "envelope") return checkDirection(message, revision, direction);
  if (level === "semantic") return context.semantic?.() ?? [];
  if (revision === "unknown") return [];
  if (level === "method") return checkMethod(message, revision, direction);
  return context.schema?.check(message, context.requestMethod) ?? [];
}

/**
 * Judges who may send what: in the modern era only clients send requests, and clients never send responses
 * (MCP 2026-07-28, Overview). Legacy traffic is symmetric.
 */
function checkDirection(message: Message, revision: Revision | "unknown", direction: Direction): readonly Diagnostic[] {
  if (revision === "unknown" || revisions[revision].serverRequests) return [];
  const isResponse = message.kind === "result" || message.kind === "error";
  if (isResponse && direction === "client-to-server") {
    return [found("direction.response", "clients do not send responses in this revision")];
  }
  if (message.kind === "request" && direction === "server-to-client") {
    return [found("direction.request", "servers do not send requests in this revision", "/method")];
  }
  return [];
}

/** Judges whether the revision has the method, as this kind of message and in this direction. */
function checkMethod(message: Message, revision: Revision, direction: Direction): readonly Diagnostic[] {
  if (message.kind !== "request" && message.kind !== "notification") return [];
  const { method, kind } = message;
  const standing = methodStatus(method, revision, direction, kind);
  if (standing === "known") return [];
  const name = JSON.stringify(method);
  const messages = {
    unknown: `${name} is no ${kind} of this revision`,
    "wrong-direction": `${name} is not sent in this direction`,
    "wrong-kind": `${name} is no ${kind}`,
  };
  return [found(`method.${standing}`, messages[standing], "/method")];
}

/** Which error answers a finding of the semantic level; findings without a row here never refuse a message. */
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

function refusalAt(
  level: ValidationLevel,
  message: Message,
  { revision, direction }: ValidationContext,
  findings: readonly [Diagnostic, ...Diagnostic[]],
): ErrorResponse | undefined {
  // A response names an id of the other side's; an error that echoed it would answer the wrong request.
  const isAsking = message.kind === "request" || message.kind === "notification";
  const id = isAsking ? message.id : undefined;
  const answer = (error: ErrorCode, { message: text, data }: Diagnostic): ErrorResponse => {
    const isUnknownMethod = error === "method_not_found" && revision !== "unknown";
    const isOtherCase = isUnknownMethod && revisions[revision].unknownMethodStatus === 404;
    return errorResponse(error, text, {
      id,
      useAlternateStatus: isOtherCase,
      ...(isRecord(data) ? { data } : {}),
    });
  };
  const [first] = findings;
  if (level === "envelope") return answer("invalid_message", first);
  if (level === "method") return answer("method_not_found", first);
  if (level === "schema") {
    const list = findings.map(({ path, message: text }) => ({ path, message: text }));
    const summary = { ...first, data: { findings: list } };
    if (isAsking) return answer("invalid_params", summary);
    return answer(direction === "server-to-client" ? "upstream_invalid" : "invalid_message", summary);
  }
  for (const finding of findings) {
    const error = semanticErrors.get(finding.code);
    if (error !== undefined) return answer(error, finding);
  }
  return undefined;
}

function found(code: string, message: string, path?: string): Diagnostic {
  return { code, severity: "warn", message, ...(path === undefined ? {} : { path }) };
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
