import { closestName } from "./closest-name.ts";
import { isObject } from "./is-object.ts";

/** What an option must be: a type, a list of strings, or one or several of the given words. */
export type OptionForm =
  | "string"
  | "boolean"
  | "number"
  | "function"
  | "object"
  | "list"
  | "string[]"
  | "any"
  | { readonly listOf: readonly string[] };

/** The form of every option; the compiler finds one that is missing here. */
export type OptionForms<Options> = { readonly [Name in keyof Required<Options>]: OptionForm };

/**
 * What is wrong with options that callers without a type checker give; undefined if nothing is. An option that would be
 * ignored may be the one that protects something.
 */
export function optionProblem(options: unknown, forms: Readonly<Record<string, OptionForm>>): string | undefined {
  if (!isObject(options)) return "its options must be an object";
  for (const [name, value] of Object.entries(options)) {
    const form = Object.hasOwn(forms, name) ? forms[name] : undefined;
    if (form === undefined) {
      const meant = closestName(name, Object.keys(forms));
      return `unknown option ${name}; ${meant === undefined ? `expected ${Object.keys(forms).join(", ")}` : `did you mean ${meant}?`}`;
    }
    const problem = value === undefined ? undefined : formProblem(value, form);
    if (problem !== undefined) return `option ${name} ${problem}`;
  }
  return undefined;
}

function formProblem(value: unknown, form: OptionForm): string | undefined {
  if (typeof form === "object") {
    if (!Array.isArray(value)) return `must be a list of ${form.listOf.join(", ")}`;
    const other: unknown = value.find((entry) => !form.listOf.includes(entry as string));
    if (other === undefined) return undefined;
    const shown = typeof other === "string" ? other : (JSON.stringify(other) ?? typeof other);
    const meant = closestName(shown, form.listOf);
    return `has ${shown}; ${meant === undefined ? `expected ${form.listOf.join(", ")}` : `did you mean ${meant}?`}`;
  }
  if (form === "list") return Array.isArray(value) ? undefined : "must be a list";
  if (form === "string[]")
    return Array.isArray(value) && value.every((entry) => typeof entry === "string")
      ? undefined
      : "must be a list of strings";
  if (form === "object") return isObject(value) ? undefined : "must be an object";
  return form === "any" || typeof value === form ? undefined : `must be a ${form}`;
}
