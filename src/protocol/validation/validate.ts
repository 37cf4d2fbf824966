import type { ErrorCode } from "../../errors.ts";
import { isObject } from "../../lib/is-object.ts";
import { createDiagnostic, type Diagnostic, diagnosticTable } from "../diagnostics.ts";
import { type Direction, errorResponse, type ErrorResponse, isMethodMessage, type Message } from "../message.ts";
import { isInOwnNamespace, methodFacts, methodStatus } from "../methods.ts";
import { type Revision, revisionNames, revisions } from "../revisions.ts";
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
  readonly requestMethod?: string | undefined;
  /** Needed by the schema level. */
  readonly schema?: SchemaValidator | undefined;
  /** Runs the semantic checks, which need state that only the caller has. */
  readonly semantic?: (() => readonly Diagnostic[]) | undefined;
}

/** What was found, and the error response if an enforced level found something. */
export interface ValidationReport {
  readonly diagnostics: readonly Diagnostic[];
  readonly response: ErrorResponse | undefined;
}

const allOff: ValidationSettings = { envelope: "off", method: "off", schema: "off", semantic: "off" };
/** How deep a route checks unless it says otherwise. */
const defaultLevels = { enforce: "method", observe: "envelope" } as const;

/**
 * The settings of a route (SC-025): every level up to the chosen one refuses in `enforce` mode and warns in `observe`
 * mode. Single levels can be chosen too. In `enforce` mode the envelope is always enforced.
 *
 * @example
 * validationSettings("enforce", "schema"); // envelope, method and schema: "enforce"
 * validationSettings("enforce", { schema: "warn" }); // envelope and method: "enforce", schema: "warn"
 */
export function validationSettings(
  mode: "enforce" | "observe",
  chosen: ValidationLevel | Partial<ValidationSettings> = {},
): ValidationSettings {
  const deepest = typeof chosen === "string" ? chosen : defaultLevels[mode];
  const setting: LevelSetting = mode === "enforce" ? "enforce" : "warn";
  const checked = validationLevels.slice(0, validationLevels.indexOf(deepest) + 1);
  const settings = {
    ...allOff,
    ...Object.fromEntries(checked.map((level) => [level, setting])),
    ...(typeof chosen === "string" ? {} : chosen),
  };
  return mode === "enforce" ? { ...settings, envelope: "enforce" } : settings;
}

const nothingFound: ValidationReport = Object.freeze({ diagnostics: Object.freeze([]), response: undefined });

/**
 * Checks a message at every level that is on. The first enforced level with a finding that rejects gives the error
 * response.
 *
 * @example
 * const settings = validationSettings("enforce", { method: "warn" });
 * validate(message, { revision: "2025-11-25", direction: "client-to-server", settings });
 * // { diagnostics: [{ code: "method.unknown", … }], response: undefined }
 */
export function validate(message: Message, context: ValidationContext): ValidationReport {
  let diagnostics: readonly Diagnostic[] = nothingFound.diagnostics;
  for (const level of validationLevels) {
    const setting = context.settings[level];
    if (setting === "off") continue;
    const findings = findingsAt(level, message, context);
    if (findings.length === 0) continue;
    const response = setting === "enforce" ? responseAt(level, message, context, findings) : undefined;
    if (response === undefined) {
      diagnostics = [...diagnostics, ...findings];
      continue;
    }
    const rejecting = findings.map((one) => ({ ...one, severity: "error" as const }));
    return { diagnostics: [...diagnostics, ...rejecting], response };
  }
  return diagnostics.length === 0 ? nothingFound : { diagnostics, response: undefined };
}

const none: readonly Diagnostic[] = Object.freeze([]);

function findingsAt(level: ValidationLevel, message: Message, context: ValidationContext): readonly Diagnostic[] {
  const { revision, direction } = context;
  if (level === "envelope") return checkDirection(message, revision, direction);
  if (level === "semantic") return context.semantic?.() ?? none;
  if (revision === "unknown") return none;
  if (level === "method") return checkMethod(message, revision, direction);
  return context.schema?.check(message, context.requestMethod) ?? none;
}

/** In the modern era only clients send requests, and only servers send responses (MCP 2026-07-28, Overview). */
function checkDirection(message: Message, revision: Revision | "unknown", direction: Direction): readonly Diagnostic[] {
  if (revision === "unknown" || revisions[revision].serverRequests) return none;
  const isResponse = message.kind === "result" || message.kind === "error";
  if (isResponse && direction === "client-to-server") return [diagnosticTable["direction.response"]];
  if (message.kind === "request" && direction === "server-to-client") return [diagnosticTable["direction.request"]];
  return none;
}

/** Checks that the revision has the method, as this kind of message and in this direction. */
function checkMethod(message: Message, revision: Revision, direction: Direction): readonly Diagnostic[] {
  if (!isMethodMessage(message)) return none;
  const { method, kind } = message;
  const status = methodStatus(method, revision, direction, kind);
  if (status === "known") return none;
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
  ["input.not-allowed", "upstream_invalid"],
  ["input.empty", "upstream_invalid"],
  ["input.method", "upstream_invalid"],
  ["input.capability", "upstream_invalid"],
]);

function responseAt(
  level: ValidationLevel,
  message: Message,
  context: ValidationContext,
  findings: readonly Diagnostic[],
): ErrorResponse | undefined {
  const rejecting = rejectionAt(level, message, context, findings);
  if (rejecting === undefined) return undefined;
  const { error, finding } = rejecting;
  const { revision } = context;
  const isUnknownMethod = error === "method_not_found" && revision !== "unknown";
  return errorResponse(error, finding.message, {
    // The id of a response belongs to the other side; an error that echoed it would answer the wrong request.
    id: isMethodMessage(message) ? message.id : undefined,
    useAlternateStatus: isUnknownMethod && revisions[revision].unknownMethodStatus === 404,
    data: {
      ...(isObject(finding.data) && level === "semantic" ? finding.data : {}),
      findings: findings.map(({ code, path, message: text }) => ({ code, path, message: text })),
    },
  });
}

/** The first finding that rejects the message, and its error. */
function rejectionAt(
  level: ValidationLevel,
  message: Message,
  context: ValidationContext,
  findings: readonly Diagnostic[],
): { readonly error: ErrorCode; readonly finding: Diagnostic } | undefined {
  for (const finding of findings) {
    const error = level === "semantic" ? semanticErrors.get(finding.code) : errorAt(level, message, context, finding);
    if (error !== undefined) return { error, finding };
  }
  return undefined;
}

function errorAt(
  level: Exclude<ValidationLevel, "semantic">,
  message: Message,
  { direction, revision }: ValidationContext,
  { code }: Diagnostic,
): ErrorCode | undefined {
  if (level === "envelope") return "invalid_message";
  if (level === "method") {
    return code === "method.unknown" && mayBeKnown(message, revision) ? undefined : "method_not_found";
  }
  if (isMethodMessage(message)) return "invalid_params";
  return direction === "server-to-client" ? "upstream_invalid" : "invalid_message";
}

/**
 * MCP may be extended: requests of other namespaces than its own may be known to the receiver, and receivers ignore
 * notifications that they do not know (JSON-RPC 2.0, section 4.1). SDKs also use what later revisions brought as soon as
 * the capability for it was declared.
 */
function mayBeKnown({ kind, method = "" }: Message, revision: Revision | "unknown"): boolean {
  if (kind === "notification" || !isInOwnNamespace(method) || revision === "unknown") return true;
  return revisionNames.some((other) => {
    const form = methodFacts(method)?.forms[other];
    return revisions[other].era === revisions[revision].era && (form === "core" || form === "extension");
  });
}
