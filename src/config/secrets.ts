import { alternativesOf, configJsonSchema, schemasBelow, type JsonSchema } from "./json-schema.ts";
import { isObject } from "../lib/is-object.ts";

/** What stands where a secret stood. */
export const mask = "(secret)";

// A shorter text stands in too many others by chance to be taken out of them.
const shortestInside = 6;

/** Knows the texts that came from outside the file and may not be shown; does not give them out. */
export interface Secrets {
  /** The text without the secrets in it, also where they stand as JSON strings. */
  readonly redact: (text: string) => string;
}

/** Remembers some texts as secrets. */
export function createSecrets(values: Iterable<string>): Secrets {
  const whole = new Set([...values].filter((value) => value !== ""));
  const inside = [...whole]
    .filter((value) => value.length >= shortestInside)
    .flatMap((value) => {
      const escaped = JSON.stringify(value).slice(1, -1);
      return escaped === value ? [value] : [value, escaped];
    })
    // A secret that holds another must go first, or its rest would stay.
    .toSorted((one, other) => other.length - one.length);
  return {
    redact(text) {
      if (whole.size === 0) return text;
      if (whole.has(text)) return mask;
      let clean = text;
      for (const value of inside) if (clean.includes(value)) clean = clean.replaceAll(value, mask);
      return clean;
    },
  };
}

/** Secrets of a configuration that may be replaced. */
export interface ReloadableSecrets extends Secrets {
  /** Takes out these from now on, and those before: what was begun with them may still go on. */
  replace(next: Secrets): void;
}

/** Knows the secrets of the configuration that runs and of the one before it. */
export function createReloadableSecrets(first: Secrets): ReloadableSecrets {
  let current = first;
  let before = first;
  return {
    redact: (text) => (before === current ? current.redact(text) : before.redact(current.redact(text))),
    replace: (next) => {
      if (next === current) return;
      before = current;
      current = next;
    },
  };
}

/**
 * A configuration as it may be shown: what the schema marks as secret, what was read from the environment or a file,
 * and credentials in URLs are masked. Plain data, fit for JSON.
 */
export function redactedConfig(config: { readonly secrets: Secrets }): Readonly<Record<string, unknown>> {
  const { secrets, ...shown } = config;
  // Routes that came as `upstream` or `mcpServers` stand among the others by now.
  return redactObject(shown, [configJsonSchema()], secrets);
}

function redactObject(
  value: Readonly<Record<string, unknown>>,
  schemas: readonly JsonSchema[],
  secrets: Secrets,
): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, redactValue(inner, schemasBelow(schemas, key), secrets)]),
  );
}

function redactValue(value: unknown, schemas: readonly JsonSchema[], secrets: Secrets): unknown {
  if (schemas.flatMap(alternativesOf).some(({ writeOnly }) => writeOnly === true)) return mask;
  if (typeof value === "string") return secrets.redact(value).replace(/(?<=\/\/)[^/?#]*@/u, `${mask}@`);
  if (typeof value === "function") return "(function)";
  if (Array.isArray(value)) return value.map((item, index) => redactValue(item, schemasBelow(schemas, index), secrets));
  return isObject(value) ? redactObject(value, schemas, secrets) : value;
}
