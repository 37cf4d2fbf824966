import type { Span } from "../../protocol/json/outline.ts";
import { decodeString } from "../../protocol/json/read.ts";
import type { Replacement } from "../../protocol/json/edit.ts";
import { scanString, type StringScanState } from "../../protocol/json/strings.ts";
import { redactText, type Detector } from "./detector.ts";

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

  function inspect(start: number, end: number, text: string, isName: boolean): void {
    const detections = detect(text);
    if (detections.length === 0) return;
    for (const { kind } of detections) kinds.add(kind);
    if (isName) isInName = true;
    else {
      const json = JSON.stringify(redactText(text, detect, detections));
      replacements.push({ span: { start, end }, bytes: Buffer.from(json) });
    }
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
