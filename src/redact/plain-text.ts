import { createHmac } from "node:crypto";

import { type Detection, type Detector, replaceDetections } from "./detectors/detector.ts";
import { throughEscapes } from "./detectors/escaped-text.ts";
import { normalizeName } from "./secret-names.ts";

/** Replaces the secrets in text that is not JSON. */
export type PlainTextRedaction = (text: string, onSecret: (secret: string) => void) => string;

/** Decides which names are names of secrets. */
export interface SecretNames {
  /** Takes normalized names. */
  readonly isSecret: (plain: string) => boolean;
  /** A quick test: false if the text contains no such name. */
  readonly mayContain: (text: string) => boolean;
}

/** A name and its sign, as in `name=value`, `name: value` and `name => value`; encoded too, in a URL within another one. */
const assignment = /([A-Za-z][\w.-]{1,63})["']?\s{0,3}(?:=>|:=|([=:])|%(?:25){0,3}3[AD])\s{0,3}/giu;
/** The value behind the sign: in quotes, a block of YAML, or up to the next space or separator. */
const value = new RegExp(
  String.raw`(?:(?:Bearer|Basic)\s{1,3})?(?:"((?!\[redacted:)(?:[^"\\\r\n]|\\.){1,4096})|'((?!\[redacted:)(?:[^'\\\r\n]|\\.){1,4096})` +
    String.raw`|([|>][-+\d]{0,2}[ \t]{0,8}(?:\r?\n[ \t]{1,64}(?!\[redacted:)[^\r\n]{1,1024}){1,100})` +
    String.raw`|["']?(?!(?:(?:Bearer|Basic)\s{1,3})?\[redacted:)([^\s"'&,;<>{}]{1,4096}))`,
  "diuy",
);
/** Headers whose value goes on to the end of the line, with quotes of its own (RFC 9110 section 11.4). */
const credentialHeaders = new Set(["authorization", "proxyauthorization", "cookie", "setcookie"]);
const headerValue =
  /(?!\s{0,3}(?:(?:Bearer|Basic)\s|\[redacted:))((?:[\w-]{1,32}="[^"\r\n]{0,1024}"|[^"'\r\n]){1,4096})/diuy;
/** `--name value`, as on a command line. */
const option = /(?<![\w-])--?([A-Za-z][\w-]{1,63})\s{1,3}["']?(?!-|\[redacted:)([^\s"']{1,4096})/dgu;
/** `<name>value</name>`, with or without attributes, a namespace and a CDATA section. */
const element =
  /<(?:[A-Za-z][\w.-]{0,63}:)?([A-Za-z][\w.-]{1,63})(?:\s[^<>]{0,256})?>\s{0,64}(?:<!\[CDATA\[)?(?!\[redacted:)([^<>]{1,4096})(?:(?<=\]\])>\s{0,64})?<\//dgu;
/** Credentials after the name of an authentication scheme (RFC 9110 section 11.4). */
const scheme =
  /(?:\b|(?<=%[\dA-F]{2}))(?:Bearer|Basic)(?:\s{1,3}|%(?:25){0,3}20|\+)(?!\[redacted:)([\w.~+/-]{8,8192}={0,2})/dgiu;

/** Makes a redaction of plain text by detectors and by names. */
export function createPlainTextRedaction(
  detectors: readonly Detector[],
  placeholder: Placeholder,
  names: SecretNames,
): PlainTextRedaction {
  const detect = throughEscapes((text) => {
    const found = detectors
      .flatMap((detector) => detector(text))
      .map((detection) => withoutUrlDelimiters(text, detection))
      // A placeholder may look like a secret: `://[redacted:…]@` contains a colon.
      .filter(({ start, end }) => !isPlaceholder(text.slice(start, end)));
    return names.mayContain(text) ? [...namedValues(text, names.isSecret), ...found] : found;
  });

  return (text, onSecret) => {
    const hide = (secret: string): string => {
      onSecret(secret);
      return placeholder(secret);
    };
    return replaceDetections(text, detect, hide) ?? hide(text);
  };
}

/** The values of names of secrets, and of headers with credentials. */
function namedValues(text: string, isSecretName: (plain: string) => boolean): readonly Detection[] {
  const found: Detection[] = [];
  const note = (match: RegExpExecArray | null): number | undefined => {
    const span = match?.indices?.findLast((part) => part !== undefined);
    if (span !== undefined) found.push({ kind: "named", start: span[0], end: span[1] });
    return span?.[1];
  };
  const find = (form: RegExp, isFound: (name: string) => boolean): void => {
    form.lastIndex = 0;
    for (let match = form.exec(text); match !== null; match = form.exec(text)) if (isFound(match[1] ?? "")) note(match);
  };
  const isNamed = (name: string): boolean => isSecretName(normalizeName(name));
  assignment.lastIndex = 0;
  for (let match = assignment.exec(text); match !== null; match = assignment.exec(text)) {
    const [, name = "", sign] = match;
    if (!isNamed(name)) continue;
    const form = sign === ":" && credentialHeaders.has(normalizeName(name)) ? headerValue : value;
    const start = assignment.lastIndex;
    assignment.lastIndex = note(execAt(form, text, start)) ?? note(execAt(value, text, start)) ?? start;
  }
  find(element, isNamed);
  find(option, isNamed);
  find(scheme, () => true);
  return found;
}

function execAt(form: RegExp, text: string, start: number): RegExpExecArray | null {
  form.lastIndex = start;
  return form.exec(text);
}

/** Keeps the delimiters of `://user:password@`, so that the URL stays readable. */
function withoutUrlDelimiters(text: string, detection: Detection): Detection {
  const { kind, start, end } = detection;
  return text.startsWith("://", start) && text[end - 1] === "@" ? { kind, start: start + 3, end: end - 1 } : detection;
}

const form = /\[redacted:[0-9a-f]{12}\]/u;
const alone = /^\[redacted:[0-9a-f]{12}\]$/u;

/** Makes the placeholder of a secret: the same for equal secrets, and irreversible without the key. */
export type Placeholder = (secret: string) => string;

/** Makes the placeholders of one capture. The key is never stored, so that secrets cannot be guessed. */
export function createPlaceholder(key: Uint8Array): Placeholder {
  return (secret) => `[redacted:${createHmac("sha256", key).update(secret).digest("hex").slice(0, 12)}]`;
}

/** Whether a text contains a placeholder. */
export function hasPlaceholder(text: string): boolean {
  return form.test(text);
}

/** Whether a text is a single placeholder. */
function isPlaceholder(text: string): boolean {
  return alone.test(text);
}
