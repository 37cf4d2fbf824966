/** Something that can be chosen, and what it is called. */
export interface FormChoice {
  readonly value: string;
  readonly label: string;
}

/** A field of a form that is made of a JSON Schema. */
export interface FormField {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly isRequired: boolean;
  /** `choices` takes several of them. */
  readonly kind: "text" | "number" | "integer" | "boolean" | "choice" | "choices" | "json";
  readonly choices: readonly FormChoice[];
  /** What is filled in at first; of several choices, each on a line. */
  readonly initial: string;
}

type Json = Readonly<Record<string, unknown>>;

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The fields of an object schema; what a form cannot show is written as JSON. Given values replace the defaults. */
export function fieldsOf(schema: unknown, given: Json = {}): readonly FormField[] {
  const properties = isObject(schema) && isObject(schema["properties"]) ? schema["properties"] : {};
  const required = isObject(schema) && Array.isArray(schema["required"]) ? schema["required"] : [];
  return Object.entries(properties).map(([name, own]) => {
    const facts = isObject(own) ? own : {};
    const isList = facts["type"] === "array";
    const choices = choicesOf(isList ? facts["items"] : facts);
    const kind = choices.length === 0 ? kindOf(facts["type"]) : isList ? "choices" : "choice";
    const initial = Object.hasOwn(given, name) ? given[name] : facts["default"];
    return {
      name,
      title: typeof facts["title"] === "string" ? facts["title"] : name,
      description: typeof facts["description"] === "string" ? facts["description"] : "",
      isRequired: required.includes(name),
      kind,
      choices,
      initial:
        initial === undefined
          ? ""
          : typeof initial === "string" && kind !== "json"
            ? initial
            : isList && choices.length > 0 && Array.isArray(initial)
              ? initial.join("\n")
              : JSON.stringify(initial),
    };
  });
}

/** Whether a schema takes more than its form can show, such as any member or one of several objects. */
export function takesMore(schema: unknown): boolean {
  if (!isObject(schema)) return false;
  if (["$ref", "allOf", "anyOf", "oneOf", "patternProperties"].some((name) => name in schema)) return true;
  const { additionalProperties: more } = schema;
  return (more === true || isObject(more)) && fieldsOf(schema).length === 0;
}

/** Choices as `enum`, with names in `enumNames`, or as constants with titles. */
function choicesOf(schema: unknown): readonly FormChoice[] {
  if (!isObject(schema)) return [];
  const { enum: values, enumNames: names, oneOf, anyOf } = schema;
  if (Array.isArray(values))
    return values.flatMap((value, index) => {
      const name: unknown = Array.isArray(names) ? names[index] : undefined;
      return typeof value === "string" ? [{ value, label: typeof name === "string" ? name : value }] : [];
    });
  const titled = (Array.isArray(oneOf) ? oneOf : Array.isArray(anyOf) ? anyOf : []) as readonly unknown[];
  const choices = titled.flatMap((one) => {
    if (!isObject(one) || typeof one["const"] !== "string") return [];
    return [{ value: one["const"], label: typeof one["title"] === "string" ? one["title"] : one["const"] }];
  });
  // Something else among them is more than a choice.
  return choices.length === titled.length ? choices : [];
}

function kindOf(type: unknown): FormField["kind"] {
  switch (type) {
    case "string":
      return "text";
    case "number":
    case "integer":
    case "boolean":
      return type;
    default:
      return "json";
  }
}

/** Arguments written as JSON; throws what is wrong with them. */
export function argumentsOf(text: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`this is not JSON: ${error instanceof Error ? error.message : String(error)}`, { cause: error });
  }
  if (!isObject(value)) throw new Error("arguments are a JSON object: { … }");
  return value;
}

/** What was typed, as a value of the field; throws what is wrong with it. Undefined leaves the member out. */
export function valueOf({ name, kind, isRequired }: FormField, text: string): unknown {
  if (text === "" && (!isRequired || kind !== "text")) {
    if (isRequired) throw new Error(`${name} is required`);
    return undefined;
  }
  switch (kind) {
    case "text":
    case "choice":
      return text;
    case "choices":
      return text.split("\n");
    case "boolean":
      return text === "true";
    case "number":
    case "integer": {
      const value = Number(text);
      if (Number.isNaN(value)) throw new Error(`${name} is not a number`);
      return value;
    }
    case "json":
      try {
        return JSON.parse(text) as unknown;
      } catch {
        throw new Error(`${name} is not JSON; write texts in quotes`);
      }
  }
}
