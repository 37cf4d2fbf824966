import { decodeHeaderValue } from "../protocol/http/mirrored-headers.ts";
import { type JsonRedactionRules, redactJsonText } from "./json-text.ts";
import { createPlaceholder, createPlainTextRedaction, type TextDetector } from "./plain-text.ts";
import { isSecretName, normalizeName, secretHints } from "./secret-names.ts";

/** What is secret, besides what always is. */
export interface RedactionRules {
  /** More names of members, arguments and headers whose values are secret. */
  readonly keys: readonly string[];
  /** JSON Pointers of secret values in messages, such as `/params/arguments/ssn`; `*` is any member or element. */
  readonly paths: readonly string[];
  /** More headers that may be kept, lower-case; credentials never are. */
  readonly headers: readonly string[];
}

/** What redaction is made with. */
export interface RedactorOptions extends Partial<RedactionRules> {
  /** What to look for by its looks, by the name of the group. */
  readonly detectors: Readonly<Record<string, TextDetector>>;
  /** Of this capture only; equal secrets get equal placeholders under one key. */
  readonly key: Uint8Array;
  /**
   * Says of the bytes of a text at a glance that there is no name of a secret in them and nothing that the detectors find;
   * where it does not, they look.
   */
  readonly prefilter?: (bytes: Uint8Array, start: number, end: number) => boolean;
  /** Takes out texts that are known to be secret, such as those of the configuration. */
  readonly known?: (text: string) => string;
}

/** A text that may be kept, and what is no longer in it. */
export interface Redacted {
  readonly text: string;
  /** How many values were replaced. */
  readonly count: number;
  /** The values, to be taken out of whatever repeats them; never to be kept. */
  readonly secrets: readonly string[];
}

/** Takes secrets out of whatever is to be kept, logged or told to others. */
export interface Redactor {
  /** Of a JSON text, such as a message. */
  json(text: string): Redacted;
  /** The same for one that is still bytes. */
  jsonBytes(bytes: Buffer, start: number, end: number): Redacted;
  /** Of any other text: a line of standard error, a reason, a path with its query. */
  text(text: string): Redacted;
  /** Of headers: only those that are known to hold no credentials stay, and of these what may be kept. */
  headers(headers: Readonly<Record<string, string>>, secrets: readonly string[]): RedactedHeaders;
  /** By which rules, in words, for whoever reads a capture. */
  readonly rules: readonly string[];
}

/** Headers that may be kept. */
export interface RedactedHeaders {
  readonly headers: Readonly<Record<string, string>>;
  readonly count: number;
}

const none: readonly string[] = [];

/** Headers that say how, not who; what is in none of the lists is left out. */
const keptHeaders = new Set([
  "accept",
  "content-type",
  "last-event-id",
  "mcp-method",
  "mcp-name",
  "mcp-protocol-version",
  "retry-after",
  "traceparent",
  "tracestate",
  "user-agent",
]);
const neverKept = new Set(["authorization", "proxy-authorization", "cookie", "set-cookie", "mcp-session-id"]);
const mostKnownValues = 500;
const longestKnownValue = 500;
const parameterPrefix = "mcp-param-";

/** Makes the redaction of one capture. */
export function createRedactor(options: RedactorOptions): Redactor {
  const { keys = none, paths = none, headers: moreHeaders = none, known } = options;
  const detectors = Object.values(options.detectors);
  const placeholder = createPlaceholder(options.key);
  const ownKeys = new Set(keys.map(normalizeName));
  const places = paths.map((path) => path.split("/").slice(1).map(unescapeStep));
  const isSecretPlain = (name: string): boolean => ownKeys.has(name) || isSecretName(name);
  const mayBeOwn = ownKeys.size === 0 && places.length === 0 ? undefined : hintsOfRules(keys, places);
  const mayStandIn = (text: string): boolean => secretHints.test(text) || mayBeOwn?.test(text) === true;
  const redactPlain = createPlainTextRedaction(detectors, placeholder, {
    isSecret: isSecretPlain,
    mayStandIn,
  });

  /** Most texts hold nothing; this says so without walking through them. */
  function isHarmless(text: string): boolean {
    if (text.includes("\\") || mayStandIn(text)) return false;
    return detectors.every((detect) => detect(text).length === 0);
  }

  function isSecretPlace(path: readonly string[]): boolean {
    return places.some(
      (place) => place.length === path.length && place.every((step, index) => step === "*" || step === path[index]),
    );
  }

  function collect(work: (onSecret: (secret: string) => void) => string): Redacted {
    const secrets: string[] = [];
    const text = work((secret) => void secrets.push(secret));
    return { text, count: secrets.length, secrets };
  }

  function walk(text: string, onSecret: (secret: string) => void, depth: number): string {
    const rules: JsonRedactionRules = {
      isSecretName: (name) => isSecretPlain(normalizeName(name)),
      isSecretPlace: depth === 0 && places.length > 0 ? isSecretPlace : never,
      hide: (secret) => {
        onSecret(secret);
        return placeholder(secret);
      },
      redactText: (value) => {
        // Tools often answer with JSON in a text; its members have names too.
        const within = depth < 3 && isJsonText(value) ? walk(value, onSecret, depth + 1) : value;
        return redactPlain(within, onSecret);
      },
    };
    return redactJsonText(text, rules);
  }

  const withoutKnown = (text: string): Redacted => {
    const clean = known === undefined ? text : known(text);
    return { text: clean, count: clean === text ? 0 : 1, secrets: none };
  };

  function json(text: string): Redacted {
    const before = withoutKnown(text);
    if (isHarmless(before.text)) return before;
    const after = collect((onSecret) => walk(before.text, onSecret, 0));
    return { ...after, count: before.count + after.count };
  }

  function jsonBytes(bytes: Buffer, start: number, end: number): Redacted {
    if (options.prefilter?.(bytes, start, end) !== true) return json(bytes.toString("utf8", start, end));
    // It is ASCII then.
    const text = bytes.toString("latin1", start, end);
    return mayBeOwn?.test(text) === true ? json(text) : withoutKnown(text);
  }

  function plain(text: string): Redacted {
    const before = withoutKnown(text);
    const after = collect((onSecret) => redactPlain(before.text, onSecret));
    return { ...after, count: before.count + after.count };
  }

  function headerValue(name: string, value: string, secrets: readonly string[]): Redacted {
    const argument = name.startsWith(parameterPrefix) ? name.slice(parameterPrefix.length) : undefined;
    const said = argument === undefined ? value : (decodeHeaderValue(value) ?? value);
    // What was secret in the body is secret where a header repeats it, whatever the header is called.
    const isRepeated = secrets.some((secret) => secret.length > 2 && said.includes(secret));
    if (isRepeated || (argument !== undefined && isSecretPlain(normalizeName(argument))))
      return { text: placeholder(said), count: 1, secrets: none };
    const clean = plain(said);
    return clean.count === 0 ? { text: value, count: 0, secrets: none } : clean;
  }

  const more = new Set(moreHeaders);
  /** Most headers say the same for every message of a client. */
  const knownValues = new Map<string, Redacted>();
  function keptValue(name: string, value: string, secrets: readonly string[]): Redacted {
    if (secrets.length > 0 || name.startsWith(parameterPrefix)) return headerValue(name, value, secrets);
    let clean = knownValues.get(value);
    if (clean === undefined) {
      clean = headerValue(name, value, secrets);
      if (knownValues.size >= mostKnownValues) knownValues.clear();
      if (value.length <= longestKnownValue) knownValues.set(value, { ...clean, secrets: none });
    }
    return clean;
  }

  return {
    json,
    jsonBytes,
    text: plain,
    headers: (headers, secrets) => {
      const kept: [string, string][] = [];
      let count = 0;
      for (const [name, value] of Object.entries(headers)) {
        const isKept = keptHeaders.has(name) || more.has(name) || name.startsWith(parameterPrefix);
        if (!isKept || neverKept.has(name)) continue;
        const clean = keptValue(name, value, secrets);
        kept.push([name, clean.text]);
        count += clean.count;
      }
      return { headers: Object.fromEntries(kept), count };
    },
    rules: [
      "names of secrets",
      ...keys.map((key) => `key ${key}`),
      ...paths.map((path) => `path ${path}`),
      ...Object.keys(options.detectors).map((name) => `detector ${name}`),
      "headers by list",
    ],
  };
}

const never = (): boolean => false;

function hintsOfRules(keys: readonly string[], places: readonly (readonly string[])[]): RegExp {
  const names = keys.map((key) => Array.from(normalizeName(key), escapeForm).join(String.raw`[\s_.\-/]?`));
  const last = places.map((place) => place.findLast((step) => step !== "*" && !/^\d+$/u.test(step)) ?? '"');
  return new RegExp([...names, ...last.map(escapeForm)].join("|"), "iu");
}

function escapeForm(text: string): string {
  return text.replaceAll(/[$()*+.?[\\\]^{|}/-]/gu, String.raw`\$&`);
}

function unescapeStep(step: string): string {
  return step.replaceAll("~1", "/").replaceAll("~0", "~");
}

function isJsonText(text: string): boolean {
  if (!/^\s*[[{]/u.test(text)) return false;
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}
