/** Something that was found in a text: which kind of thing, and where. */
export interface Detection {
  /** What it is, such as `aws-access-key`; never the thing itself. */
  readonly kind: string;
  readonly start: number;
  readonly end: number;
}

/** Looks for things in a text, in time linear to it. What it finds may overlap, in any order. */
export type Detector = (text: string) => readonly Detection[];

/** A kind of thing that a pattern tells. */
export interface DetectorPattern {
  readonly kind: string;
  /** Every repetition in it is bounded, and no match can begin inside of what another one has walked through. */
  readonly form: RegExp;
  /** Text without which there is no match, to find out quickly. */
  readonly hint?: string;
  /** What no pattern can tell, such as a check digit. */
  readonly check?: (match: string) => boolean;
}

/** Makes a detector of patterns. */
export function createDetector(patterns: readonly DetectorPattern[]): Detector {
  return (text) => {
    let findings: Detection[] | undefined;
    for (const { kind, form, hint, check } of patterns) {
      if (hint !== undefined && !text.includes(hint)) continue;
      form.lastIndex = 0;
      for (let match = form.exec(text); match !== null; match = form.exec(text)) {
        if (check !== undefined && !check(match[0])) continue;
        (findings ??= []).push({ kind, start: match.index, end: match.index + match[0].length });
      }
    }
    return findings ?? none;
  };
}

const none: readonly Detection[] = [];

/** Rounds after which a text that still has findings is given up as a whole. */
const mostRounds = 8;

/**
 * The text with everything that is found replaced by what kind of thing it was. What stood in the way of another finding
 * may be gone then, so it is looked at again until nothing is found.
 */
export function redactText(text: string, detect: Detector, found: readonly Detection[] = detect(text)): string {
  let clean = text;
  let findings = found;
  for (let round = 0; findings.length > 0; round++) {
    if (round === mostRounds) return "[redacted]";
    clean = withoutFindings(clean, findings);
    findings = detect(clean);
  }
  return clean;
}

function withoutFindings(text: string, findings: readonly Detection[]): string {
  const ordered = findings.toSorted((one, other) => one.start - other.start || other.end - one.end);
  let result = "";
  let at = 0;
  for (const { kind, start, end } of ordered) {
    if (end <= at) continue;
    // Where two overlap, the rest of the second goes with the first.
    if (start >= at) result += `${text.slice(at, start)}[redacted: ${kind}]`;
    at = end;
  }
  return result + text.slice(at);
}
