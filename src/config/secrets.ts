/** Replaces a secret. */
export const mask = "(secret)";

// A shorter secret would match other text by chance.
const shortestInside = 6;

/** Values that came from the environment or a file and must not be shown. */
export interface Secrets {
  /** The text with all secrets masked, also where they are JSON-escaped. */
  readonly redact: (text: string) => string;
}

/** Kept apart, so that they do not show when what masks them is printed. */
const valuesOf = new WeakMap<Secrets, ReadonlySet<string>>();

/** Masks the secrets of both. */
export function joinSecrets(one: Secrets, other: Secrets): Secrets {
  return createSecrets([one, other].flatMap((secrets) => [...(valuesOf.get(secrets) ?? [])]));
}

/** Creates a mask for some secrets. */
export function createSecrets(values: Iterable<string>): Secrets {
  const whole = new Set([...values].filter((value) => value !== ""));
  const inside = [...whole]
    .filter((value) => value.length >= shortestInside)
    .flatMap((value) => {
      const escaped = JSON.stringify(value).slice(1, -1);
      return escaped === value ? [value] : [value, escaped];
    })
    // Longest first: a secret may contain another.
    .toSorted((one, other) => other.length - one.length);
  const secrets: Secrets = {
    redact(text) {
      if (whole.size === 0) return text;
      if (whole.has(text)) return mask;
      let clean = text;
      for (const value of inside) if (clean.includes(value)) clean = clean.replaceAll(value, mask);
      return clean;
    },
  };
  valuesOf.set(secrets, whole);
  return secrets;
}

/** Secrets that change when the configuration is reloaded. */
export interface ReloadableSecrets extends Secrets {
  /**
   * Masks these from now on, and the previous ones too: requests that use them may still run. Where a part of the previous
   * configuration stays in use until a restart, so do its secrets.
   */
  replace(next: Secrets, areKept?: boolean): void;
}

/** Masks the secrets of the current and of the previous configuration. */
export function createReloadableSecrets(first: Secrets): ReloadableSecrets {
  let current = first;
  let before = first;
  return {
    redact: (text) => (before === current ? current.redact(text) : before.redact(current.redact(text))),
    replace: (next, areKept = false) => {
      if (next === current) return;
      before = current;
      current = areKept ? joinSecrets(current, next) : next;
    },
  };
}
