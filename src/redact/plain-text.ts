import { createHmac } from "node:crypto";

import { normalizeName } from "./secret-names.ts";

/** Something that a detector found in a text. */
export interface DetectedSpan {
  readonly kind: string;
  readonly start: number;
  readonly end: number;
}

/** Finds things by what they look like, in time linear to the text. */
export type TextDetector = (text: string) => readonly DetectedSpan[];

/** Takes secrets out of a text that is not JSON. */
export type PlainTextRedaction = (text: string, onSecret: (secret: string) => void) => string;

/** Which names are those of secrets. */
export interface SecretNames {
  /** Takes names as `normalizeName` makes them. */
  readonly isSecret: (plain: string) => boolean;
  /** Says quickly that there is none in a text. */
  readonly mayStandIn: (text: string) => boolean;
}

/** Rounds after which a text in which something is still found is given up as a whole. */
const mostRounds = 8;

/** `name=value` and `name: value`, the value in quotes or up to the next space or separator. */
const assignment =
  /([A-Za-z][\w.-]{1,63})["']?(?:\s{0,3}[=:]\s{0,3})(?:(?:Bearer|Basic|Digest)\s{1,3})?["']?(?!\[redacted:)([^\s"'&,;<>{}]{1,4096})/gu;
/** What stands behind the name of a scheme (RFC 9110 section 11.4). */
const scheme = /\b(?:Bearer|Basic)\s{1,3}(?!\[redacted:)([\w.~+/-]{8,8192}={0,2})/giu;

/** Makes the redaction of plain texts: by what things look like, and by the names they are given. */
export function createPlainTextRedaction(
  detectors: readonly TextDetector[],
  placeholder: Placeholder,
  names: SecretNames,
): PlainTextRedaction {
  const detect = (text: string): readonly DetectedSpan[] =>
    detectors
      .flatMap((detector) => detector(text))
      // What is hidden may look like what it hides: `://[redacted:…]@` has a colon too.
      .filter((finding) => {
        const { start, end } = inner(text, finding);
        return !isPlaceholder(text.slice(start, end));
      });

  return (text, onSecret) => {
    const hide = (secret: string): string => {
      onSecret(secret);
      return placeholder(secret);
    };
    let clean = names.mayStandIn(text) ? withoutNamed(text, names.isSecret, hide) : text;
    let findings = detect(clean);
    for (let round = 0; findings.length > 0; round++) {
      if (round === mostRounds) return hide(text);
      clean = withoutFindings(clean, findings, hide);
      findings = detect(clean);
    }
    return clean;
  };
}

function withoutNamed(
  text: string,
  isSecretName: (plain: string) => boolean,
  hide: (secret: string) => string,
): string {
  const named = withoutAssigned(text, isSecretName, hide);
  return named.replace(scheme, (match, value: string) => match.slice(0, match.length - value.length) + hide(value));
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
      // What stands behind a harmless name may be another assignment, as in a URL with a query.
      assignment.lastIndex = start;
    }
  }
  return result + text.slice(at);
}

function withoutFindings(text: string, findings: readonly DetectedSpan[], hide: (secret: string) => string): string {
  const ordered = findings.toSorted((one, other) => one.start - other.start || other.end - one.end);
  let result = "";
  let at = 0;
  for (const finding of ordered) {
    const { start, end } = inner(text, finding);
    if (end <= at) continue;
    // Where two overlap, the rest of the second goes with the first.
    if (start >= at) result += text.slice(at, start) + hide(text.slice(start, end));
    at = end;
  }
  return result + text.slice(at);
}

/** Of `://user:password@` only what stands between: the rest keeps a URL readable. */
function inner(text: string, { start, end }: DetectedSpan): { start: number; end: number } {
  return text.startsWith("://", start) && text[end - 1] === "@" ? { start: start + 3, end: end - 1 } : { start, end };
}

const form = /\[redacted:[0-9a-f]{12}\]/u;
const alone = /^\[redacted:[0-9a-f]{12}\]$/u;

/** Makes what stands where a secret stood: the same for the same secret, and no way back to it without the key. */
export type Placeholder = (secret: string) => string;

/** Placeholders of one capture; its key is not kept anywhere, so nobody can try out what a secret might have been. */
export function createPlaceholder(key: Uint8Array): Placeholder {
  return (secret) => `[redacted:${createHmac("sha256", key).update(secret).digest("hex").slice(0, 12)}]`;
}

/** Whether something was redacted in a text. */
export function hasPlaceholder(text: string): boolean {
  return form.test(text);
}

/** Whether a text is a placeholder and nothing else. */
function isPlaceholder(text: string): boolean {
  return alone.test(text);
}
