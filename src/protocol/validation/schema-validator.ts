import type { core, ZodType } from "zod";

import type { Diagnostic } from "../diagnostics.ts";
import { memberInteger, memberString, memberType, memberValue, pointerTo } from "../json/read.ts";
import type { ErrorMessage, Message, ResultMessage } from "../message.ts";
import { methodFacts } from "../methods.ts";
import { type Revision, revisionNames } from "../revisions.ts";
import type { MessageSchemas } from "./schema/message-schemas.ts";

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

/** A rule of the schema that a value breaks. */
interface SchemaViolation {
  /** From the root of the value. */
  readonly path: readonly (string | number)[];
  /** The JSON Schema keyword of the rule, if it has one. */
  readonly rule: string;
  readonly expected: string;
}

type Issue = core.$ZodIssue;

/** What JSON calls the types that the schema library has other names for. */
const jsonTypes: Readonly<Record<string, string>> = {
  nonoptional: "any value",
  record: "object",
  map: "object",
  tuple: "array",
  int: "integer",
};

/** Converts the issues of the schema library. */
function schemaViolations(issues: readonly Issue[], value: unknown): readonly SchemaViolation[] {
  return issues.flatMap((issue) => violationsIn(issue, value, []));
}

function violationsIn(issue: Issue, root: unknown, base: readonly (string | number)[]): readonly SchemaViolation[] {
  const path = [...base, ...issue.path.map(step)];
  const one = (rule: string, expected: string): readonly SchemaViolation[] => [{ path, rule, expected }];
  switch (issue.code) {
    case "invalid_type": {
      const isMissing = valueAt(root, path) === undefined;
      const expected = String(issue.expected);
      return one(isMissing ? "required" : "type", jsonTypes[expected] ?? expected);
    }
    case "invalid_value": {
      const values = issue.values.map((value) => JSON.stringify(value)).join(" or ");
      const isMissing = valueAt(root, path) === undefined;
      return one(isMissing ? "required" : issue.values.length === 1 ? "const" : "enum", values);
    }
    case "too_small":
      return one(bound("min", issue.origin), `at least ${issue.minimum}`);
    case "too_big":
      return one(bound("max", issue.origin), `at most ${issue.maximum}`);
    case "invalid_format":
      return one("format", issue.format);
    case "invalid_union":
      return unionViolations(issue, root, base, path);
    case "invalid_key":
    case "invalid_element":
      return issue.issues.flatMap((inner) => violationsIn(inner, root, path));
    case "custom":
      return customViolation(issue, one);
    case "not_multiple_of":
      return one("multipleOf", String(issue.divisor));
    case "unrecognized_keys":
    default:
      // Our schemas allow additional members, so this does not happen.
      return one("additionalProperties", issue.message);
  }
}

/** Our own rules have a name; those of the official package only a message, such as "Invalid Base64 string". */
function customViolation(
  issue: core.$ZodIssueCustom,
  one: (rule: string, expected: string) => readonly SchemaViolation[],
): readonly SchemaViolation[] {
  const { expected, rule } = issue.params ?? {};
  if (typeof expected === "string") return one(typeof rule === "string" ? rule : "type", expected);
  return one("format", issue.message.replace(/^Invalid /, ""));
}

/** Reports the branch of a union that the value is closest to. */
function unionViolations(
  issue: core.$ZodIssueInvalidUnion,
  root: unknown,
  base: readonly (string | number)[],
  path: readonly (string | number)[],
): readonly SchemaViolation[] {
  if (issue.errors.length === 0) {
    const isMissing = valueAt(root, path) === undefined;
    const options = "options" in issue && Array.isArray(issue.options) ? issue.options : [];
    const expected = options.map((option: unknown) => JSON.stringify(option)).join(" or ");
    return [{ path, rule: isMissing ? "required" : "enum", expected }];
  }
  const branches = issue.errors.map((errors) => errors.flatMap((inner) => violationsIn(inner, root, path)));
  const isElsewhere = (violation: SchemaViolation): boolean => violation.path.length > path.length;
  const deep = branches.filter((branch) => branch.every(isElsewhere));
  if (deep.length === 0) {
    const expected = new Set(branches.flat().map(({ expected: wanted }) => wanted));
    const isMissing = valueAt(root, path) === undefined;
    return [{ path, rule: isMissing ? "required" : "type", expected: [...expected].join(" or ") }];
  }
  const closest = deep.toSorted((a, b) => distance(a) - distance(b))[0];
  return closest ?? [];
}

/** A wrong discriminator means another branch; fewer violations mean a closer match. */
function distance(branch: readonly SchemaViolation[]): number {
  return branch.length + (branch.some(({ rule }) => rule === "const") ? 100 : 0);
}

function bound(side: "min" | "max", origin: string): string {
  if (origin === "string") return `${side}Length`;
  if (origin === "array" || origin === "set") return `${side}Items`;
  return `${side}imum`;
}

function valueAt(root: unknown, path: readonly (string | number)[]): unknown {
  let value = root;
  for (const key of path) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
    value = Reflect.get(value, key);
  }
  return value;
}

function step(key: PropertyKey): string | number {
  return typeof key === "number" ? key : String(key);
}

/** The schemas of all revisions, which are loaded when a route first needs them. */
interface LoadedSchemas {
  /** Undefined until they are loaded. */
  readonly loaded: ReadonlyMap<Revision, SchemaValidator> | undefined;
  /** Rejects where they cannot be loaded: then no message passes unchecked. */
  readonly loading: Promise<unknown>;
}

let shared: LoadedSchemas | undefined;

/** Loads the schemas of all revisions, once for all routes. */
export function loadSchemas(): LoadedSchemas {
  if (shared !== undefined) return shared;
  let loaded: LoadedSchemas["loaded"];
  const loading = Promise.all(revisionNames.map(loadSchemaValidator)).then((validators) => {
    loaded = new Map(validators.map((validator) => [validator.revision, validator]));
  });
  // Messages that wait for it are told; without any, nobody has to be.
  loading.catch(() => {});
  shared = {
    get loaded() {
      return loaded;
    },
    loading,
  };
  return shared;
}
