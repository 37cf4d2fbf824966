import { pointerStep } from "../protocol/json/read.ts";

/** How one value of a JSON text is to be kept. */
export interface JsonRedactionRules {
  /** Whether everything below a member of this name is secret. */
  readonly isSecretName: (name: string) => boolean;
  /** Whether everything below this place is secret. */
  readonly isSecretPlace: (path: readonly string[]) => boolean;
  /** What of a text may be kept. */
  readonly redactText: (text: string) => string;
  /** What stands for a text or number that is secret as a whole. */
  readonly hide: (secret: string) => string;
}

/** Digits from which on a number may be one of a card or an account. */
const shortestNumber = 12;

/**
 * A JSON text with its secrets replaced and everything else as it was, white space and digits included. The text must
 * be JSON; it is walked through once.
 */
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

  /** Steps over the string that begins here and answers what it says. */
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

  function walkObject(isSecret: boolean): void {
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
      walk(isSecret || (!isExempt(path) && rules.isSecretName(name)) || rules.isSecretPlace(path));
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

/** Places of schemas: what stands under their names are descriptions, not values (SC-069). */
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
