import { pointerStep } from "../protocol/json/read.ts";

/** What to redact in JSON text. */
export interface JsonRedactionRules {
  /** Whether everything below a member of this name is secret. */
  readonly isSecretName: (name: string) => boolean;
  /** Whether everything below this place is secret. */
  readonly isSecretPlace: (path: readonly string[]) => boolean;
  /** Redacts a string or member name. */
  readonly redactText: (text: string) => string;
  /** The replacement of a string or number that is secret as a whole. */
  readonly hide: (secret: string) => string;
}

/** A number with this many digits may be that of a card or an account. */
const shortestNumber = 12;

/** Replaces the secrets in JSON text in one pass; everything else stays unchanged. The text must be valid JSON. */
export function redactJsonText(text: string, rules: JsonRedactionRules): string {
  const path: string[] = [];
  let out = "";
  let copied = 0;
  let at = 0;

  function skipSpace(): void {
    for (;;) {
      const c = text.charCodeAt(at);
      if (c !== 0x20 && c !== 0x0a && c !== 0x0d && c !== 0x09) return;
      at++;
    }
  }

  function replace(start: number, end: number, by: string): void {
    out += text.slice(copied, start) + by;
    copied = end;
  }

  /** Reads the string at the current position. */
  function readString(): string {
    const start = at;
    let isPlain = true;
    for (at++; text.charCodeAt(at) !== 0x22; at++) {
      if (text.charCodeAt(at) === 0x5c) {
        isPlain = false;
        at++;
      }
    }
    at++;
    return isPlain ? text.slice(start + 1, at - 1) : String(JSON.parse(text.slice(start, at)));
  }

  /** Whether the object at the current position is a pair that names a secret: `{"name":"password","value":"…"}`. */
  function isSecretPair(): boolean {
    const begin = at;
    let isNamed = false;
    at++;
    skipSpace();
    while (!isNamed && text.charCodeAt(at) === 0x22) {
      const member = readString();
      skipSpace();
      at++;
      skipSpace();
      const isText = text.charCodeAt(at) === 0x22;
      if (isText && pairNames.has(member.toLowerCase())) isNamed = rules.isSecretName(readString());
      else skipValue();
      skipSpace();
      if (text.charCodeAt(at) === 0x2c) at++;
      skipSpace();
    }
    at = begin;
    return isNamed;
  }

  /** Moves behind a value without looking at it. */
  function skipValue(): void {
    let depth = 0;
    do {
      const c = text.charCodeAt(at);
      if (c === 0x22) readString();
      else {
        if (c === 0x7b || c === 0x5b) depth++;
        if (c === 0x7d || c === 0x5d) depth--;
        at++;
      }
    } while (at < text.length && (depth > 0 || !/[,\]}]/u.test(text.charAt(at))));
  }

  function walkObject(isSecret: boolean): void {
    const hidesValue = !isSecret && mayBePair(text, at) && !isExempt(path) && isSecretPair();
    at++;
    skipSpace();
    while (text.charCodeAt(at) === 0x22) {
      const start = at;
      const name = readString();
      const clean = rules.redactText(name);
      if (clean !== name) replace(start, at, JSON.stringify(clean));
      skipSpace();
      at++;
      path.push(name);
      const isPairValue = hidesValue && pairValues.has(name.toLowerCase());
      walk(isSecret || isPairValue || (!isExempt(path) && rules.isSecretName(name)) || rules.isSecretPlace(path));
      path.pop();
      skipSpace();
      if (text.charCodeAt(at) === 0x2c) at++;
      skipSpace();
    }
    at++;
  }

  function walkArray(isSecret: boolean): void {
    at++;
    skipSpace();
    for (let index = 0; text.charCodeAt(at) !== 0x5d; index++) {
      path.push(String(index));
      walk(isSecret || rules.isSecretPlace(path));
      path.pop();
      skipSpace();
      if (text.charCodeAt(at) === 0x2c) at++;
      skipSpace();
    }
    at++;
  }

  function walkString(isSecret: boolean): void {
    const start = at;
    const value = readString();
    const clean = isSecret ? (value === "" ? value : rules.hide(value)) : rules.redactText(value);
    if (clean !== value) replace(start, at, JSON.stringify(clean));
  }

  function walkScalar(isSecret: boolean): void {
    const start = at;
    while (at < text.length && !/[,\]}\s]/u.test(text.charAt(at))) at++;
    const value = text.slice(start, at);
    if (!/^[-\d]/u.test(value)) return;
    const isHidden = isSecret || (value.length >= shortestNumber && rules.redactText(value) !== value);
    if (isHidden) replace(start, at, JSON.stringify(rules.hide(value)));
  }

  function walk(isSecret: boolean): void {
    skipSpace();
    const c = text.charCodeAt(at);
    if (c === 0x7b) walkObject(isSecret);
    else if (c === 0x5b) walkArray(isSecret);
    else if (c === 0x22) walkString(isSecret);
    else walkScalar(isSecret);
  }

  walk(false);
  return copied === 0 ? text : out + text.slice(copied);
}

/** The members that name and hold something in a list of pairs. */
const pairNames = new Set(["name", "key", "header", "field", "variable", "parameter"]);
const pairValues = new Set(["value", "values", "content", "data"]);
/** A pair is short up to its name; this much is read to see whether an object may be one. */
const pairWindow = 400;

function mayBePair(text: string, at: number): boolean {
  return /"(?:name|key|header|field|variable|parameter)"/iu.test(text.slice(at, at + pairWindow));
}

/** JSON Schemas, whose member names describe values but do not contain them (SC-069). */
const schemas = [
  /^\/(?:result|params)\/tools\/\d+\/(?:inputSchema|outputSchema)\//u,
  /^\/params\/requestedSchema\//u,
  /^\/result\/inputRequests\/[^/]+\/params\/(?:requestedSchema|tools\/\d+\/(?:inputSchema|outputSchema))\//u,
];

function isExempt(path: readonly string[]): boolean {
  if (path.length < 3 || !path.some((step) => step.endsWith("Schema"))) return false;
  const pointer = path.map(pointerStep).join("");
  return schemas.some((place) => place.test(pointer));
}
