import { decodeHeaderValue } from "../protocol/http/mirrored-headers.ts";
import { pointerSteps } from "../protocol/json/read.ts";
import type { Detector } from "./detectors/detector.ts";
import { blobMember } from "./detectors/encoded-content.ts";
import { hasEscapes } from "./detectors/escaped-text.ts";
import { type JsonRedactionRules, redactJsonText } from "./json-text.ts";
import { createPlaceholder, createPlainTextRedaction } from "./plain-text.ts";
import { isSecretName, normalizeName, secretHints } from "./secret-names.ts";

/** What is secret besides the built-in names. */
export interface RedactionRules {
  /** More names of members, arguments and headers whose values are secret. */
  readonly keys: readonly string[];
  /** JSON Pointers of secret values in messages, such as `/params/arguments/ssn`; `*` is any member or element. */
  readonly paths: readonly string[];
  /** More headers to keep, in lower case; credentials are never kept. */
  readonly headers: readonly string[];
}

/** What a redactor needs. */
export interface RedactorOptions extends Partial<RedactionRules> {
  /** Detectors of secret values, by the name of their group. */
  readonly detectors: Readonly<Record<string, Detector>>;
  /** The key of this capture; equal secrets get equal placeholders. */
  readonly key: Uint8Array;
  /** A quick test: true if the bytes are ASCII and contain no name of a secret and nothing that the detectors find. */
  readonly prefilter?: (bytes: Uint8Array, start: number, end: number) => boolean;
  /** Replaces texts that are known to be secret, such as those of the configuration. */
  readonly known?: (text: string) => string;
}

/** The text without its secrets. */
export interface Redacted {
  readonly text: string;
  /** The number of replaced values. */
  readonly count: number;
  /** The replaced values, to find them in headers that repeat them; must not be stored. */
  readonly secrets: readonly string[];
}

/** Replaces secrets in everything that is recorded, logged or exported. */
export interface Redactor {
  /** Redacts JSON text, such as a message. */
  json(text: string): Redacted;
  /** Redacts JSON text in bytes; undefined if they are ASCII and there is nothing to redact. */
  jsonBytes(bytes: Buffer, start: number, end: number): Redacted | undefined;
  /** Redacts any other text: a line of standard error, a reason, a path with its query. */
  text(text: string): Redacted;
  /** Redacts headers: only known harmless ones are kept. */
  headers(headers: Readonly<Record<string, string>>, secrets: readonly string[]): RedactedHeaders;
  /** A description of the rules, for readers of a capture. */
  readonly rules: readonly string[];
}

/** The headers that are kept. */
export interface RedactedHeaders {
  readonly headers: Readonly<Record<string, string>>;
  readonly count: number;
}

const none: readonly string[] = [];

/** How many secrets of one text get their own placeholders; hashing more would hold up other messages. */
const maxHashed = 1000;
const uniformPlaceholder = "[redacted:000000000000]";

/** Makes the redactor of one capture. */
export function createRedactor(options: RedactorOptions): Redactor {
  const { keys = none, paths = none, headers: keptHeaders = none, known } = options;
  const detectors = Object.values(options.detectors);
  const digest = createPlaceholder(options.key);
  const ownKeys = new Set(keys.map(normalizeName));
  const places = paths.map(pointerSteps);
  const ownHints = ownKeys.size === 0 && places.length === 0 ? undefined : hintsOf(keys, places);
  const isSecret = (name: string): boolean => ownKeys.has(name) || isSecretName(name);
  const mayContain = (text: string): boolean => secretHints.test(text) || ownHints?.test(text) === true;
  /** Counts the secrets of the text being redacted: beyond a bound they all get one placeholder, which costs no hash. */
  let hidden = 0;
  const placeholder = (secret: string): string => (++hidden > maxHashed ? uniformPlaceholder : digest(secret));
  const redactPlain = createPlainTextRedaction(detectors, placeholder, { isSecret, mayContain });

  /** A quick test, because most texts contain no secret. */
  function isHarmless(text: string): boolean {
    if (hasEscapes(text) || mayContain(text) || text.includes(`"${blobMember}"`)) return false;
    return detectors.every((detect) => detect(text).length === 0);
  }

  function walk(text: string, onSecret: (secret: string) => void, depth: number): string {
    const rules: JsonRedactionRules = {
      isSecretName: (name) => isSecret(normalizeName(name)),
      isSecretPlace: (path) => depth === 0 && places.some((place) => isAt(place, path)),
      hide: (secret) => {
        onSecret(secret);
        return placeholder(secret);
      },
      redactText: (value) => {
        // Tools often return JSON in a string; its members have names too.
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

  function redact(before: Redacted, work: (text: string, onSecret: (secret: string) => void) => string): Redacted {
    const secrets: string[] = [];
    hidden = 0;
    const text = work(before.text, (secret) => void secrets.push(secret));
    return { text, count: before.count + secrets.length, secrets };
  }

  function json(text: string): Redacted {
    const before = withoutKnown(text);
    return isHarmless(before.text) ? before : redact(before, (clean, onSecret) => walk(clean, onSecret, 0));
  }

  function jsonBytes(bytes: Buffer, start: number, end: number): Redacted | undefined {
    if (options.prefilter?.(bytes, start, end) !== true) return json(bytes.toString("utf8", start, end));
    const text = bytes.toString("latin1", start, end);
    if (ownHints?.test(text) === true) return json(text);
    const clean = withoutKnown(text);
    return clean.count === 0 ? undefined : clean;
  }

  const plain = (text: string): Redacted => redact(withoutKnown(text), redactPlain);

  return {
    json,
    jsonBytes,
    text: plain,
    headers: createHeaderRedaction(keptHeaders, plain, isSecret, digest),
    rules: [
      "names of secrets",
      ...keys.map((key) => `key ${key}`),
      ...paths.map((path) => `path ${path}`),
      ...Object.keys(options.detectors).map((name) => `detector ${name}`),
      "headers by list",
    ],
  };
}

/** Headers about the protocol, not about the caller. */
const harmlessHeaders = [
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
];
const credentialHeaders = new Set(["authorization", "proxy-authorization", "cookie", "set-cookie", "mcp-session-id"]);
const parameterPrefix = "mcp-param-";
const maxCachedValues = 500;
const maxCachedLength = 500;

function createHeaderRedaction(
  more: readonly string[],
  redactText: (text: string) => Redacted,
  isSecret: (name: string) => boolean,
  placeholder: (secret: string) => string,
): Redactor["headers"] {
  const allowed = new Set([...harmlessHeaders, ...more]);
  /** Most headers are the same in every message of a client. */
  const cache = new Map<string, Redacted>();

  function redactParameter(name: string, value: string, secrets: readonly string[]): Redacted {
    const argument = name.startsWith(parameterPrefix) ? name.slice(parameterPrefix.length) : undefined;
    const decoded = argument === undefined ? value : (decodeHeaderValue(value) ?? value);
    // A secret of the body is also secret in a header that repeats it.
    const isRepeated = secrets.some((secret) => secret.length > 2 && decoded.includes(secret));
    if (isRepeated || (argument !== undefined && isSecret(normalizeName(argument))))
      return { text: placeholder(decoded), count: 1, secrets: none };
    const clean = redactText(decoded);
    return clean.count === 0 ? { text: value, count: 0, secrets: none } : clean;
  }

  function redactValue(name: string, value: string, secrets: readonly string[]): Redacted {
    if (secrets.length > 0 || name.startsWith(parameterPrefix)) return redactParameter(name, value, secrets);
    let clean = cache.get(value);
    if (clean === undefined) {
      clean = redactParameter(name, value, secrets);
      if (cache.size >= maxCachedValues) cache.clear();
      if (value.length <= maxCachedLength) cache.set(value, { ...clean, secrets: none });
    }
    return clean;
  }

  return (headers, secrets) => {
    const kept: [string, string][] = [];
    let count = 0;
    for (const [name, value] of Object.entries(headers)) {
      const isKept = allowed.has(name) || name.startsWith(parameterPrefix);
      if (!isKept || credentialHeaders.has(name)) continue;
      const clean = redactValue(name, value, secrets);
      kept.push([name, clean.text]);
      count += clean.count;
    }
    return { headers: Object.fromEntries(kept), count };
  };
}

/** Matches any text that may contain one of the configured names or places. */
function hintsOf(keys: readonly string[], places: readonly (readonly string[])[]): RegExp {
  const names = keys.map((key) => Array.from(normalizeName(key), escapePattern).join(String.raw`[\s_.\-/]?`));
  const last = places.map((place) => place.findLast((step) => step !== "*" && !/^\d+$/u.test(step)) ?? '"');
  return new RegExp([...names, ...last.map(escapePattern)].join("|"), "iu");
}

function escapePattern(text: string): string {
  return text.replaceAll(/[$()*+.?[\\\]^{|}/-]/gu, String.raw`\$&`);
}

function isAt(place: readonly string[], path: readonly string[]): boolean {
  return place.length === path.length && place.every((step, index) => step === "*" || step === path[index]);
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
