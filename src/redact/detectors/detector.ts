import type { Span } from "../../protocol/json/outline.ts";
import { decodeString } from "../../protocol/json/read.ts";
import type { Replacement } from "../../protocol/json/edit.ts";
import { blobMember, redactBase64 } from "./encoded-content.ts";
import { throughEscapes } from "./escaped-text.ts";
import { scanString, type StringScanState } from "../../protocol/json/strings.ts";

/** Something that a detector found in text. */
export interface Detection {
  /** What it is, such as `aws-access-key`; never its value. */
  readonly kind: string;
  readonly start: number;
  readonly end: number;
}

/** Finds secrets or personal data in text, in linear time. Detections may overlap and come in any order. */
export type Detector = (text: string) => readonly Detection[];

/** A pattern of a detector. */
export interface DetectorPattern {
  readonly kind: string;
  /** All repetitions are bounded, so that matching takes linear time. */
  readonly form: RegExp;
  /** A string that every match contains, for a quick test. */
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

/** Replaces everything that is detected in text by its kind. */
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

/** What was detected in the strings of a JSON value. */
export interface StringScan {
  /** The kinds of detections, each once. */
  readonly kinds: readonly string[];
  /** Replaces all detections except those in member names. */
  readonly replacements: readonly Replacement[];
  /** Whether a member name contains a detection, which cannot be replaced. */
  readonly isInName: boolean;
}

const shortestNumber = 13;

/**
 * Runs a detector on all strings of the value at a span, including member names and long numbers. The scanner must have
 * accepted the bytes.
 */
export function scanJsonStrings(bytes: Buffer, span: Span, detect: Detector): StringScan {
  const notes: StringScanState = { quote: -1, backslash: -1, loneSurrogateAt: -1 };
  const kinds = new Set<string>();
  const replacements: Replacement[] = [];
  let isInName = false;

  let name = "";
  const looksThrough = throughEscapes(detect);

  function redactPart(text: string): string {
    const detections = looksThrough(text);
    for (const { kind } of detections) kinds.add(kind);
    return redactText(text, looksThrough, detections);
  }

  function inspect(start: number, end: number, text: string, isName: boolean): void {
    if (isName) {
      name = text;
      isInName ||= redactPart(text) !== text;
      return;
    }
    const blob = name === blobMember ? redactBase64(text, redactPart) : undefined;
    const clean = blob ?? redactPart(text);
    if (clean !== text) replacements.push({ span: { start, end }, bytes: Buffer.from(JSON.stringify(clean)) });
  }

  let at = span.start;
  while (at < span.end) {
    const byte = bytes[at] ?? 0;
    if (byte === 0x22) {
      const end = scanString(bytes, at + 1, span.end, notes);
      inspect(at, end, decodeString(bytes, at, end), isFollowedByColon(bytes, end, span.end));
      at = end;
    } else if (byte === 0x2d || isDigit(byte)) {
      const end = endOfNumber(bytes, at, span.end);
      if (end - at >= shortestNumber) inspect(at, end, bytes.toString("latin1", at, end), false);
      at = end;
    } else at++;
  }
  return { kinds: [...kinds], replacements, isInName };
}

function isFollowedByColon(bytes: Buffer, from: number, end: number): boolean {
  let at = from;
  while (at < end && (bytes[at] ?? 0) <= 0x20) at++;
  return at < end && bytes[at] === 0x3a;
}

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

function endOfNumber(bytes: Buffer, from: number, end: number): number {
  let at = from;
  while (at < end && isInNumber(bytes[at] ?? 0)) at++;
  return at;
}

function isInNumber(byte: number): boolean {
  return isDigit(byte) || byte === 0x2b || byte === 0x2d || byte === 0x2e || byte === 0x45 || byte === 0x65;
}
