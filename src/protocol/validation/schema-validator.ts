import { memberInteger, memberString, memberType, memberValue, pointerTo } from "../json/read.ts";
import type { Diagnostic, ErrorMessage, Message, ResultMessage } from "../message.ts";
import { methodFacts } from "../methods.ts";
import type { Revision } from "../revisions.ts";
import type { MessageSchemas } from "./schema/message-schemas.ts";
import type { SchemaViolation } from "./schema/violations.ts";

/** Compares messages of one revision with its schema. */
export interface SchemaValidator {
  readonly revision: Revision;
  /**
   * Where a message differs from the schema: JSON Pointer, rule and expected type; nothing for members and methods
   * that the schema does not know. A result can only be compared when the method of its request is given.
   */
  readonly check: (message: Message, requestMethod?: string) => readonly Diagnostic[];
}

type Schema = MessageSchemas["requests"] extends ReadonlyMap<string, infer Value> ? Value : never;
type Describe = (issues: readonly Issue[], value: unknown) => readonly SchemaViolation[];
type Issue = NonNullable<ReturnType<Schema["safeParse"]>["error"]>["issues"][number];

/** A hostile list could break a rule in every entry; the first few say enough. */
const mostFindings = 20;
const none: readonly Diagnostic[] = Object.freeze([]);

/**
 * Loads the schemas of a revision, with the libraries that they need: not before somebody asks, because most gateways
 * never validate that far. The validator itself is synchronous; keep it, building it costs some milliseconds.
 *
 * @example
 * const validator = await loadSchemaValidator("2025-11-25");
 * validator.check(message); // [{ code: "schema.required", path: "/params/name", … }]
 */
export async function loadSchemaValidator(revision: Revision): Promise<SchemaValidator> {
  const [{ createMessageSchemas }, { schemaViolations }] = await Promise.all([
    import("./schema/message-schemas.ts"),
    import("./schema/violations.ts"),
  ]);
  const catalogue = createMessageSchemas(revision);
  return {
    revision,
    check: (message, requestMethod) => checkMessage(catalogue, schemaViolations, message, requestMethod),
  };
}

function checkMessage(
  catalogue: MessageSchemas,
  describe: Describe,
  message: Message,
  requestMethod: string | undefined,
): readonly Diagnostic[] {
  switch (message.kind) {
    case "request":
      return compare(describe, catalogue.requests.get(message.method), "params", memberValue(message, "params"));
    case "notification":
      return compare(describe, catalogue.notifications.get(message.method), "params", memberValue(message, "params"));
    case "result":
      return checkResult(catalogue, describe, message, requestMethod);
    case "error":
      return checkError(catalogue, describe, message);
    default:
      return none;
  }
}

/** The kind of a result decides what it is compared with (MCP 2025-11-25, Tasks; MCP 2026-07-28, Results). */
function checkResult(
  catalogue: MessageSchemas,
  describe: Describe,
  message: ResultMessage,
  method: string | undefined,
): readonly Diagnostic[] {
  if (method === undefined || !catalogue.results.has(method)) return none;
  const value = memberValue(message, "result");
  const answer = () => compare(describe, catalogue.results.get(method), "result", value);
  if (catalogue.inputRequired === undefined) {
    const isTask = catalogue.createTask !== undefined && memberType(message, "result.task") === "object";
    return isTask ? compare(describe, catalogue.createTask, "result", value) : answer();
  }
  const facts = methodFacts(method);
  const type = memberString(message, "result.resultType");
  if (type === undefined || type === "complete") return answer();
  if (type === "input_required" && facts?.inputRequired === true) {
    return compare(describe, catalogue.inputRequired, "result", value);
  }
  if (type === "task" && facts?.target === "tool") return compare(describe, catalogue.createTask, "result", value);
  const allowed = ["complete", ...(facts?.inputRequired === true ? ["input_required"] : [])].map((kind) => `"${kind}"`);
  return [diagnosticOf("result", { path: ["resultType"], rule: "enum", expected: allowed.join(" or ") })];
}

function checkError(catalogue: MessageSchemas, describe: Describe, message: ErrorMessage): readonly Diagnostic[] {
  const code = memberInteger(message, "error.code");
  const schema = code === undefined ? undefined : catalogue.errors.get(code);
  return compare(describe, schema, "error/data", memberValue(message, "error.data"));
}

function compare(
  describe: Describe,
  schema: Schema | undefined,
  root: "params" | "result" | "error/data",
  value: unknown,
): readonly Diagnostic[] {
  if (schema === undefined) return none;
  const outcome = schema.safeParse(value);
  if (outcome.success) return none;
  const findings = describe(outcome.error.issues, value);
  return findings.slice(0, mostFindings).map((finding) => diagnosticOf(root, finding));
}

function diagnosticOf(root: string, { path, rule, expected }: SchemaViolation): Diagnostic {
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
