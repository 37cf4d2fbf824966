/** Something that a detector found in a text. */
export interface Detection {
  /** What it is, such as `aws-access-key`; never its value. */
  readonly kind: string;
  readonly start: number;
  readonly end: number;
}

/** Finds secrets or personal data in a text, in linear time. Detections may overlap and come in any order. */
export type Detector = (text: string) => readonly Detection[];

/** A pattern of a detector. */
export interface DetectorPattern {
  readonly kind: string;
  /** All repetitions are bounded, so that matching takes linear time. */
  readonly form: RegExp;
  /** A text that every match contains, for a quick test. */
  readonly hint?: string;
  /** A test that no pattern can express, such as a check digit. */
  readonly check?: (match: string) => boolean;
}

/** Makes a detector from patterns. */
export function createDetector(patterns: readonly DetectorPattern[]): Detector {
  return (text) => {
    let detections: Detection[] | undefined;
    for (const { kind, form, hint, check } of patterns) {
      if (hint !== undefined && !text.includes(hint)) continue;
      form.lastIndex = 0;
      for (let match = form.exec(text); match !== null; match = form.exec(text)) {
        if (check !== undefined && !check(match[0])) continue;
        (detections ??= []).push({ kind, start: match.index, end: match.index + match[0].length });
      }
    }
    return detections ?? none;
  };
}

const none: readonly Detection[] = [];

/** After this many rounds a text that still has detections is replaced as a whole. */
const maxRounds = 8;

/** Replaces everything that is detected in a text by its kind. */
export function redactText(text: string, detect: Detector, found: readonly Detection[] = detect(text)): string {
  const replace = (_: string, kind: string): string => `[redacted: ${kind}]`;
  return replaceDetections(text, detect, replace, found) ?? "[redacted]";
}

/** Replaces detections until none is left, because removing one may reveal another; undefined if that does not end. */
export function replaceDetections(
  text: string,
  detect: Detector,
  replace: (detected: string, kind: string) => string,
  found: readonly Detection[] = detect(text),
): string | undefined {
  let clean = text;
  let detections = found;
  for (let round = 0; detections.length > 0; round++) {
    if (round === maxRounds) return undefined;
    clean = replaceOnce(clean, detections, replace);
    detections = detect(clean);
  }
  return clean;
}

function replaceOnce(
  text: string,
  detections: readonly Detection[],
  replace: (detected: string, kind: string) => string,
): string {
  const ordered = detections.toSorted((one, other) => one.start - other.start || other.end - one.end);
  let result = "";
  let at = 0;
  for (const { kind, start, end } of ordered) {
    if (end <= at) continue;
    // If two overlap, the rest of the second is removed with the first.
    if (start >= at) result += text.slice(at, start) + replace(text.slice(start, end), kind);
    at = end;
  }
  return result + text.slice(at);
}
