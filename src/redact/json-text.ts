import { pointerStep } from "../protocol/json/read.ts";
import { blobMember, redactBase64 } from "./detectors/encoded-content.ts";
import { JsonCursor } from "./json-cursor.ts";

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
  const cursor = new JsonCursor(text);
  let out = "";
  let copied = 0;

  function replace(start: number, by: string): void {
    out += text.slice(copied, start) + by;
    copied = cursor.at;
  }

  function walkObject(isSecret: boolean): void {
    const hidesValue =
      !isSecret && mayBePair(text, cursor.at) && !isExempt(path) && isSecretPair(cursor, rules.isSecretName);
    cursor.at++;
    cursor.skipSpace();
    while (cursor.code === 0x22) {
      const start = cursor.at;
      const name = cursor.readString();
      const clean = rules.redactText(name);
      if (clean !== name) replace(start, JSON.stringify(clean));
      cursor.skipSpace();
      cursor.at++;
      path.push(name);
      const isPairValue = hidesValue && pairValues.has(name.toLowerCase());
      walk(isSecret || isPairValue || (!isExempt(path) && rules.isSecretName(name)) || rules.isSecretPlace(path));
      path.pop();
      cursor.skipComma();
    }
    cursor.at++;
  }

  function walkArray(isSecret: boolean): void {
    const hasNames = (headerList.test(path.at(-1) ?? "") || isPairArray(cursor)) && !isExempt(path);
    let isValue = false;
    cursor.at++;
    cursor.skipSpace();
    for (let index = 0; cursor.code !== 0x5d; index++) {
      path.push(String(index));
      const isName = hasNames && index % 2 === 0 && cursor.code === 0x22;
      const namesSecret = isName && rules.isSecretName(cursor.peek(() => cursor.readString()));
      walk(isSecret || isValue || rules.isSecretPlace(path));
      isValue = namesSecret;
      path.pop();
      cursor.skipComma();
    }
    cursor.at++;
  }

  function walkString(isSecret: boolean): void {
    const start = cursor.at;
    const value = cursor.readString();
    const clean = isSecret ? (value === "" ? value : rules.hide(value)) : redactString(value);
    if (clean !== value) replace(start, JSON.stringify(clean));
  }

  function redactString(value: string): string {
    const clean = path.at(-1) === blobMember ? redactBase64(value, rules.redactText) : undefined;
    return clean ?? rules.redactText(value);
  }

  function walkScalar(isSecret: boolean): void {
    const start = cursor.at;
    const value = cursor.readScalar();
    if (!/^[-\d]/u.test(value)) return;
    const isHidden = isSecret || (value.length >= shortestNumber && rules.redactText(value) !== value);
    if (isHidden) replace(start, JSON.stringify(rules.hide(value)));
  }

  function walk(isSecret: boolean): void {
    cursor.skipSpace();
    const c = cursor.code;
    if (c === 0x7b) walkObject(isSecret);
    else if (c === 0x5b) walkArray(isSecret);
    else if (c === 0x22) walkString(isSecret);
    else walkScalar(isSecret);
  }

  walk(false);
  return copied === 0 ? text : out + text.slice(copied);
}

/** Whether the object at the position is a pair that names a secret: `{"name":"password","value":"…"}`. */
function isSecretPair(cursor: JsonCursor, isSecretName: (name: string) => boolean): boolean {
  return cursor.peek(() => {
    cursor.at++;
    cursor.skipSpace();
    while (cursor.code === 0x22) {
      const member = cursor.readString();
      cursor.skipSpace();
      cursor.at++;
      cursor.skipSpace();
      if (cursor.code !== 0x22 || !pairNames.has(member.toLowerCase())) cursor.skipValue();
      else if (isSecretName(cursor.readString())) return true;
      cursor.skipComma();
    }
    return false;
  });
}

/** Whether the array at the position is a pair of strings, as in `["authorization","…"]`. */
function isPairArray(cursor: JsonCursor): boolean {
  return cursor.peek(() => {
    cursor.at++;
    cursor.skipSpace();
    for (let count = 0; count < 2; count++) {
      if (cursor.code !== 0x22) return false;
      cursor.readString();
      cursor.skipComma();
    }
    return cursor.code === 0x5d;
  });
}

/** The members that name and hold something in a list of pairs. */
const pairNames = new Set(["name", "key", "k", "id", "label", "header", "field", "variable", "parameter"]);
const pairValues = new Set(["value", "values", "v", "val", "content", "data"]);
/** Lists of headers, such as `rawHeaders` of Node, in which names and values take turns. */
const headerList = /headers?$/iu;
/** A pair is short up to its name; this much is read to see whether an object may be one. */
const pairWindow = 400;

function mayBePair(text: string, at: number): boolean {
  return /"(?:name|key|k|id|label|header|field|variable|parameter)"/iu.test(text.slice(at, at + pairWindow));
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
