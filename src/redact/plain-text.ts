import { createHmac } from "node:crypto";

import { type Detection, type Detector, replaceDetections } from "./detectors/detector.ts";
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

/**
 * `name=value` and `name: value`, with the value in quotes or up to the next space or separator. Either may be encoded in a URL
 * that is part of another one.
 */
const assignment =
  /([A-Za-z][\w.-]{1,63})["']?(?:\s{0,3}(?:[=:]|%(?:25){0,3}3[AD])\s{0,3})(?:(?:Bearer|Basic|Digest)\s{1,3})?["']?(?!\[redacted:)([^\s"'&,;<>{}]{1,4096})/giu;
/** `--name value`, as on a command line. */
const option = /(?<![\w-])--?([A-Za-z][\w-]{1,63})\s{1,3}["']?(?!-|\[redacted:)([^\s"']{1,4096})/gu;
/** `<name>value</name>`, with or without attributes and a namespace. */
const element =
  /<(?:[A-Za-z][\w.-]{0,63}:)?([A-Za-z][\w.-]{1,63})(?:\s[^<>]{0,256})?>(?!\[redacted:)([^<>]{1,4096})<\//gu;
/** Credentials after the name of an authentication scheme (RFC 9110 section 11.4). */
const scheme =
  /(?:\b|(?<=%[\dA-F]{2}))(?:Bearer|Basic)(?:\s{1,3}|%(?:25){0,3}20|\+)(?!\[redacted:)([\w.~+/-]{8,8192}={0,2})/giu;

/** Makes a redaction of plain text by detectors and by names. */
export function createPlainTextRedaction(
  detectors: readonly Detector[],
  placeholder: Placeholder,
  names: SecretNames,
): PlainTextRedaction {
  const detect: Detector = (text) =>
    detectors
      .flatMap((detector) => detector(text))
      .map((detection) => withoutUrlDelimiters(text, detection))
      // A placeholder may look like a secret: `://[redacted:…]@` contains a colon.
      .filter(({ start, end }) => !isPlaceholder(text.slice(start, end)));

  return (text, onSecret) => {
    const hide = (secret: string): string => {
      onSecret(secret);
      return placeholder(secret);
    };
    const clean = names.mayContain(text) ? withoutNamed(text, names.isSecret, hide) : text;
    return replaceDetections(clean, detect, hide) ?? hide(text);
  };
}

function withoutNamed(
  text: string,
  isSecretName: (plain: string) => boolean,
  hide: (secret: string) => string,
): string {
  const hideNamed = (match: string, name: string, value: string): string => {
    if (!isSecretName(normalizeName(name))) return match;
    const at = match.lastIndexOf(value);
    return match.slice(0, at) + hide(value) + match.slice(at + value.length);
  };
  return withoutAssigned(text, isSecretName, hide)
    .replace(element, hideNamed)
    .replace(option, hideNamed)
    .replace(scheme, (match, value: string) => match.slice(0, match.length - value.length) + hide(value));
}

function withoutAssigned(
  text: string,
  isSecretName: (plain: string) => boolean,
  hide: (secret: string) => string,
): string {
  let result = "";
  let at = 0;
  assignment.lastIndex = 0;
  for (let match = assignment.exec(text); match !== null; match = assignment.exec(text)) {
    const [whole, name = "", value = ""] = match;
    const start = match.index + whole.length - value.length;
    if (isSecretName(normalizeName(name))) {
      result += text.slice(at, start) + hide(value);
      at = start + value.length;
    } else {
      // The value of a harmless name may be another assignment, as in a URL with a query.
      assignment.lastIndex = start;
    }
  }
  return result + text.slice(at);
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
