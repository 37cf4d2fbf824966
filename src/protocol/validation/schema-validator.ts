import type { ZodType } from "zod";

import { memberInteger, memberString, memberType, memberValue, pointerTo } from "../json/read.ts";
import type { Diagnostic } from "../diagnostics.ts";
import type { ErrorMessage, Message, ResultMessage } from "../message.ts";
import { methodFacts } from "../methods.ts";
import type { Revision } from "../revisions.ts";
import type { MessageSchemas } from "./schema/message-schemas.ts";
import { type SchemaViolation, schemaViolations } from "./schema/violations.ts";

/** Compares messages with the schema of one revision. */
export interface SchemaValidator {
  readonly revision: Revision;
  /**
   * Where a message differs from the schema. Members and methods that the schema does not know are not checked, and a
   * result only if the method of its request is given.
   */
  readonly check: (message: Message, requestMethod?: string) => readonly Diagnostic[];
}

/** A hostile list could break a rule in every entry; the first few are enough. */
const maxViolations = 20;
const none: readonly Diagnostic[] = Object.freeze([]);

/**
 * Loads the schemas of a revision. They and their libraries are imported on demand, because most gateways never
 * validate that far. Keep the validator: building it takes some milliseconds.
 *
 * @example
 * const validator = await loadSchemaValidator("2025-11-25");
 * validator.check(message); // [{ code: "schema.required", path: "/params/name", … }]
 */
export async function loadSchemaValidator(revision: Revision): Promise<SchemaValidator> {
  const { createMessageSchemas } = await import("./schema/message-schemas.ts");
  const schemas = createMessageSchemas(revision);
  return {
    revision,
    check: (message, requestMethod) => {
      switch (message.kind) {
        case "request":
          return compare(schemas.requests.get(message.method), "params", memberValue(message, "params"));
        case "notification":
          return compare(schemas.notifications.get(message.method), "params", memberValue(message, "params"));
        case "result":
          return checkResult(schemas, message, requestMethod);
        case "error":
          return checkError(schemas, message);
      }
    },
  };
}

/** The kind of a result decides which schema applies (MCP 2025-11-25, Tasks; MCP 2026-07-28, Results). */
function checkResult(
  schemas: MessageSchemas,
  message: ResultMessage,
  method: string | undefined,
): readonly Diagnostic[] {
  if (method === undefined || !schemas.results.has(method)) return none;
  const compareWith = (schema: ZodType | undefined) => compare(schema, "result", memberValue(message, "result"));
  if (schemas.inputRequired === undefined) {
    const isTask = schemas.createTask !== undefined && memberType(message, "result.task") === "object";
    return compareWith(isTask ? schemas.createTask : schemas.results.get(method));
  }
  const facts = methodFacts(method);
  const type = memberString(message, "result.resultType");
  if (type === undefined || type === "complete") return compareWith(schemas.results.get(method));
  if (type === "input_required" && facts?.inputRequired === true) return compareWith(schemas.inputRequired);
  if (type === "task" && facts?.target === "tool") return compareWith(schemas.createTask);
  const expected = facts?.inputRequired === true ? '"complete" or "input_required"' : '"complete"';
  return [toDiagnostic("result", { path: ["resultType"], rule: "enum", expected })];
}

function checkError(schemas: MessageSchemas, message: ErrorMessage): readonly Diagnostic[] {
  const code = memberInteger(message, "error.code");
  const schema = code === undefined ? undefined : schemas.errors.get(code);
  return compare(schema, "error/data", memberValue(message, "error.data"));
}

function compare(schema: ZodType | undefined, root: string, value: unknown): readonly Diagnostic[] {
  const outcome = schema?.safeParse(value);
  if (outcome?.error === undefined) return none;
  const violations = schemaViolations(outcome.error.issues, value);
  return violations.slice(0, maxViolations).map((violation) => toDiagnostic(root, violation));
}

function toDiagnostic(root: string, { path, rule, expected }: SchemaViolation): Diagnostic {
  const pointer = `/${root}${pointerTo(path)}`;
  const message = rule === "required" ? `${pointer} is missing` : `${pointer} breaks the rule "${rule}"`;
  return {
    code: `schema.${rule}`,
    severity: "warn",
    path: pointer,
    message: `${message}: expected ${expected}`,
    data: { rule, expected },
  };
}
