/** A field of a form that is made of a JSON Schema. */
export interface FormField {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly isRequired: boolean;
  readonly kind: "text" | "number" | "integer" | "boolean" | "choice" | "json";
  readonly choices: readonly string[];
  readonly initial: string;
}

type Json = Readonly<Record<string, unknown>>;

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** The fields of an object schema; what a form cannot show is written as JSON. */
export function fieldsOf(schema: unknown): readonly FormField[] {
  const properties = isObject(schema) && isObject(schema["properties"]) ? schema["properties"] : {};
  const required = isObject(schema) && Array.isArray(schema["required"]) ? schema["required"] : [];
  return Object.entries(properties).map(([name, own]) => {
    const facts = isObject(own) ? own : {};
    const choices = Array.isArray(facts["enum"]) ? facts["enum"].filter((one) => typeof one === "string") : [];
    const initial = facts["default"];
    return {
      name,
      title: typeof facts["title"] === "string" ? facts["title"] : name,
      description: typeof facts["description"] === "string" ? facts["description"] : "",
      isRequired: required.includes(name),
      kind: choices.length > 0 ? "choice" : kindOf(facts["type"]),
      choices,
      initial: initial === undefined ? "" : typeof initial === "string" ? initial : JSON.stringify(initial),
    };
  });
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
