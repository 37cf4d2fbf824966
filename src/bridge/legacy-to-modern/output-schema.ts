type Schema = Readonly<Record<string, unknown>>;

/** Keywords whose values are data: a `$ref` in them is not a reference. */
const dataKeywords: ReadonlySet<string> = new Set(["const", "default", "enum", "examples"]);
/** Keywords that hold schemas under names of the author's choice, which may look like keywords. */
const mapKeywords: ReadonlySet<string> = new Set([
  "$defs",
  "definitions",
  "dependencies",
  "dependentSchemas",
  "patternProperties",
  "properties",
]);
const referenceKeywords: ReadonlySet<string> = new Set(["$ref", "$dynamicRef"]);

/** Whether a legacy client must see an output schema wrapped: before 2026-07-28 its root is always an object. */
export function needsWrapping(schema: unknown): schema is Schema {
  return isRecord(schema) && schema["type"] !== "object";
}

/**
 * The schema for `{"result": value}` where the given one describes the value. References within the schema are made
 * to lead to its new place, except below an `$id`, which is a document of its own (JSON Schema 2020-12, section 8.2.1).
 */
export function wrapOutputSchema(schema: Schema): Schema {
  const { $schema } = schema;
  return {
    ...(typeof $schema === "string" ? { $schema } : {}),
    type: "object",
    properties: { result: rebase(schema) },
    required: ["result"],
  };
}

function rebase(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(rebase);
  if (!isRecord(node) || isDocument(node)) return node;
  return mapValues(node, (value, keyword) => {
    if (referenceKeywords.has(keyword) && typeof value === "string") return rebaseReference(value);
    if (dataKeywords.has(keyword)) return value;
    return mapKeywords.has(keyword) && isRecord(value) ? mapValues(value, rebase) : rebase(value);
  });
}

function rebaseReference(reference: string): string {
  const isLocal = reference === "#" || reference.startsWith("#/");
  return isLocal ? `#/properties/result${reference.slice(1)}` : reference;
}

/** An `$id` that is only a fragment is an anchor in the words of draft 7, and begins no document. */
function isDocument({ $id }: Schema): boolean {
  return typeof $id === "string" && !$id.startsWith("#");
}

function mapValues(record: Schema, map: (value: unknown, key: string) => unknown): Schema {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value, key)]));
}

function isRecord(value: unknown): value is Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
