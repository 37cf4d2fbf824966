import { emptySpans, level, slotOf, slotOfDecodedKey, slotOfKey } from "./outline.ts";
import type { Level, Outline } from "./outline.ts";
import { scanNumber, scanString } from "./strings.ts";
import type { StringScanState } from "./strings.ts";

/** Why a value is not valid JSON, and where. */
export interface ScanError {
  readonly ok: false;
  readonly reason: "json.syntax" | "json.depth";
  readonly offset: number;
}

/**
 * Checks that one JSON value is valid without building it, and records the positions of known MCP members and the
 * first duplicate member name at any depth. It accepts exactly what `JSON.parse` accepts, up to the depth limit. The
 * bytes must be valid UTF-8.
 *
 * Needed by bench parse: "1 KB `tools/call`, parse + metadata with the guard" and the rows about 1 MB.
 */
export function scan(bytes: Uint8Array, from: number, maxDepth: number): Outline | ScanError {
  return scanner.run(bytes, skipSpace(bytes, from, bytes.length), maxDepth);
}

/** The first offset at or after `from` that is not JSON white space. */
export function skipSpace(bytes: Uint8Array, from: number, end: number): number {
  let i = from;
  while (i < end) {
    const c = bytes[i];
    if (c !== 0x20 && c !== 0x0a && c !== 0x0d && c !== 0x09) break;
    i++;
  }
  return i;
}

const idSlot = slotOf("id");
const paramsSlot = slotOf("params");
const resultSlot = slotOf("result");
const errorSlot = slotOf("error");
const paramsMetaSlot = slotOf("params._meta");
const resultMetaSlot = slotOf("result._meta");
/** Strings that routing and policy read: two readers could understand a lone surrogate in them differently. */
const readSlots = new Set(
  (["method", "id", "params.name", "params.uri", "params.taskId", "params.requestState"] as const).map(slotOf),
);

/** Case variants matter in requests, where a lenient server could read them; results may use any names. */
const lastGuardedLevel = level.paramsMeta;

/** With more keys than this, an object gets a set of strings to find duplicates. */
const fewKeys = 16;
/** The frame of an open container in `work`: parent frame, flags, index of the key set or -1, then the keys. */
const frameHead = 3;

const nothing = new Uint8Array(0);
/** Numbers of working memory to keep after a large message. */
const keptWork = 4096;

/**
 * One pass over one value. Frames and keys share one array of small integers, because for small messages allocations
 * would cost more than the scan itself.
 */
class Scanner {
  bytes: Uint8Array = nothing;
  end = 0;
  maxDepth = 0;
  /** Of the last message; the outline gets a copy of those up to `lastSlot`. */
  readonly spans = emptySpans();
  /** The last slot with a span. */
  lastSlot = -1;
  readonly notes: StringScanState = { quote: -1, backslash: -1, loneSurrogateAt: -1 };
  readonly work: number[] = [];
  sets: Set<string>[] | undefined = undefined;
  top = 0;
  frame = -1;
  depth = 0;
  slot = -1;
  duplicateAt = -1;
  duplicateId = false;
  caseVariantAt = -1;
  loneSurrogateInName = false;
  fault: "json.syntax" | "json.depth" = "json.syntax";

  run(bytes: Uint8Array, start: number, maxDepth: number): Outline | ScanError {
    this.reset(bytes, maxDepth);
    const end = this.value(start);
    // Release the message before the next scan.
    this.bytes = nothing;
    this.sets = undefined;
    if (this.work.length > keptWork) this.work.length = keptWork;
    if (end < 0) return { ok: false, reason: this.fault, offset: -1 - end };
    return {
      ok: true,
      start,
      end,
      spans: this.spans.slice(0, this.lastSlot + 2),
      duplicateAt: this.duplicateAt,
      duplicateId: this.duplicateId,
      caseVariantAt: this.caseVariantAt,
      loneSurrogateAt: this.notes.loneSurrogateAt,
      loneSurrogateInName: this.loneSurrogateInName,
    };
  }

  reset(bytes: Uint8Array, maxDepth: number): void {
    this.bytes = bytes;
    this.end = bytes.length;
    this.maxDepth = maxDepth;
    this.spans.fill(-1, 0, this.lastSlot + 2);
    this.lastSlot = -1;
    this.notes.quote = -1;
    this.notes.backslash = -1;
    this.notes.loneSurrogateAt = -1;
    this.top = 0;
    this.frame = -1;
    this.depth = 0;
    this.slot = -1;
    this.duplicateAt = -1;
    this.duplicateId = false;
    this.caseVariantAt = -1;
    this.loneSurrogateInName = false;
    this.fault = "json.syntax";
  }

  /** Scans a value and returns its end, or `-1 - offset` of the error. */
  value(start: number): number {
    const { bytes, end, spans, notes } = this;
    let i = start;
    for (;;) {
      // A value must begin at i; this.slot is the slot of its span.
      const slot = this.slot;
      const from = i;
      const c = i < end ? (bytes[i] ?? 0) : 0;
      if (c === 0x22) {
        const lone = notes.loneSurrogateAt;
        i = scanString(bytes, i + 1, end, notes);
        if (lone !== notes.loneSurrogateAt && readSlots.has(slot)) this.loneSurrogateInName = true;
      } else if (c === 0x7b || c === 0x5b) {
        i = this.open(i, c === 0x7b);
        if (i < 0) return i;
        i = skipSpace(bytes, i, end);
        const next = i < end ? bytes[i] : 0;
        if (next === (c === 0x7b ? 0x7d : 0x5d)) {
          // An empty container is closed by the loop below.
        } else if (c === 0x7b) {
          i = this.key(i);
          if (i < 0) return i;
          continue;
        } else {
          this.slot = -1;
          continue;
        }
      } else if (c === 0x2d || (c >= 0x30 && c <= 0x39)) {
        i = scanNumber(bytes, i, end);
      } else {
        i = scanLiteral(bytes, i, end, c);
      }
      if (i < 0) return i;
      if (slot >= 0 && c !== 0x7b && c !== 0x5b) {
        spans[slot] = from;
        spans[slot + 1] = i;
      }
      // After a value: a comma leads to the next one, brackets close containers, depth 0 ends the scan.
      for (;;) {
        if (this.frame < 0) return i;
        i = skipSpace(bytes, i, end);
        const flags = this.work[this.frame + 1] ?? 0;
        const next = i < end ? bytes[i] : 0;
        if (next === 0x2c) {
          i = skipSpace(bytes, i + 1, end);
          if ((flags & 1) === 0) {
            this.slot = -1;
            break;
          }
          i = this.key(i);
          if (i < 0) return i;
          break;
        }
        if (next !== ((flags & 1) === 1 ? 0x7d : 0x5d)) return -1 - i;
        i++;
        this.close(i);
      }
    }
  }

  /** Pushes a frame for the container at i; returns the offset after the bracket. */
  open(i: number, isObject: boolean): number {
    if (++this.depth > this.maxDepth) {
      this.fault = "json.depth";
      return -1 - i;
    }
    const slot = this.slot;
    let inside: Level = level.other;
    if (isObject) {
      if (this.frame < 0) inside = level.envelope;
      else if (slot === paramsSlot) inside = level.params;
      else if (slot === resultSlot) inside = level.result;
      else if (slot === paramsMetaSlot) inside = level.paramsMeta;
      else if (slot === resultMetaSlot) inside = level.resultMeta;
      else if (slot === errorSlot) inside = level.error;
    }
    if (slot >= 0) this.spans[slot] = i;
    const { work, top } = this;
    work[top] = this.frame;
    work[top + 1] = (isObject ? 1 : 0) | (inside << 1) | ((slot + 1) << 4);
    work[top + 2] = -1;
    this.frame = top;
    this.top = top + frameHead;
    return i + 1;
  }

  /** Pops the frame of the container that ends at i. */
  close(i: number): void {
    const { work, frame } = this;
    const slot = ((work[frame + 1] ?? 0) >> 4) - 1;
    if (slot >= 0) this.spans[slot + 1] = i;
    this.top = frame;
    this.frame = work[frame] ?? -1;
    this.depth--;
  }

  /** Reads a member name and its colon, records duplicates, and returns the offset of the value. */
  key(at: number): number {
    const { bytes, end } = this;
    if (at >= end || bytes[at] !== 0x22) return -1 - at;
    const from = at + 1;
    let i = from;
    let hash = 0;
    let c = 0;
    while (i < end && (c = bytes[i] ?? 0) !== 0x22 && c !== 0x5c && c >= 0x20 && c < 0x80) {
      hash = (Math.imul(hash, 31) + c) | 0;
      i++;
    }
    const inside = (((this.work[this.frame + 1] ?? 0) >> 1) & 7) as Level;
    if (i < end && c === 0x22) {
      this.slot = inside === level.other ? -1 : slotOfKey(inside, bytes, from, i);
      this.remember(from, i, hash);
      i++;
    } else {
      i = this.oddKey(from, i, inside);
      if (i < 0) return i;
    }
    if (this.slot === -2) {
      if (this.caseVariantAt < 0 && inside <= lastGuardedLevel) this.caseVariantAt = at;
      this.slot = -1;
    }
    if (this.slot > this.lastSlot) this.lastSlot = this.slot;
    i = skipSpace(bytes, i, end);
    if (i >= end || bytes[i] !== 0x3a) return -1 - i;
    return skipSpace(bytes, i + 1, end);
  }

  /** A key with escapes or non-ASCII characters, which is compared by its decoded text. */
  oddKey(from: number, at: number, inside: Level): number {
    const lone = this.notes.loneSurrogateAt;
    const i = scanString(this.bytes, at, this.end, this.notes);
    if (i < 0) return i;
    if (lone !== this.notes.loneSurrogateAt) this.loneSurrogateInName = true;
    const key = decodeKey(this.bytes, from, i - 1);
    this.slot = inside === level.other ? -1 : slotOfDecodedKey(inside, key);
    const set = this.keySet();
    if (set.has(key)) this.noteDuplicate(from);
    else set.add(key);
    return i;
  }

  /** Compares an ASCII key with its siblings and stores it. */
  remember(from: number, to: number, hash: number): void {
    const { work, frame } = this;
    const first = frame + frameHead;
    if ((work[frame + 2] ?? -1) >= 0 || this.top - first >= fewKeys * 3) {
      const set = this.keySet();
      const key = latin1(this.bytes, from, to);
      if (set.has(key)) this.noteDuplicate(from);
      else set.add(key);
      return;
    }
    for (let at = first; at < this.top; at += 3) {
      if (work[at] === hash && this.sameKey(work[at + 1] ?? 0, work[at + 2] ?? 0, from, to)) this.noteDuplicate(from);
    }
    work[this.top] = hash;
    work[this.top + 1] = from;
    work[this.top + 2] = to;
    this.top += 3;
  }

  sameKey(from: number, to: number, otherFrom: number, otherTo: number): boolean {
    const { bytes } = this;
    if (to - from !== otherTo - otherFrom) return false;
    for (let i = 0; i < to - from; i++) if (bytes[from + i] !== bytes[otherFrom + i]) return false;
    return true;
  }

  /** The key set of the open object, created from the keys so far when first needed. */
  keySet(): Set<string> {
    const { work, frame } = this;
    const sets = (this.sets ??= []);
    const index = work[frame + 2] ?? -1;
    const existing = sets[index];
    if (existing !== undefined) return existing;
    const set = new Set<string>();
    for (let at = frame + frameHead; at < this.top; at += 3) {
      set.add(latin1(this.bytes, work[at + 1] ?? 0, work[at + 2] ?? 0));
    }
    work[frame + 2] = sets.length;
    sets.push(set);
    return set;
  }

  noteDuplicate(from: number): void {
    if (this.duplicateAt < 0) this.duplicateAt = from - 1;
    if (this.slot === idSlot) this.duplicateId = true;
  }
}

/** Scans are synchronous and never nested, so one scanner is enough. */
const scanner = new Scanner();

function scanLiteral(bytes: Uint8Array, i: number, end: number, c: number): number {
  if (c === 0x74) return matches(bytes, i, end, "true");
  if (c === 0x66) return matches(bytes, i, end, "false");
  if (c === 0x6e) return matches(bytes, i, end, "null");
  return -1 - i;
}

function matches(bytes: Uint8Array, from: number, end: number, word: string): number {
  for (let i = 0; i < word.length; i++) {
    if (from + i >= end || bytes[from + i] !== word.charCodeAt(i)) return -1 - (from + i < end ? from + i : end);
  }
  return from + word.length;
}

function latin1(bytes: Uint8Array, from: number, to: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + from, to - from).toString("latin1");
}

function decodeKey(bytes: Uint8Array, from: number, to: number): string {
  const text = Buffer.from(bytes.buffer, bytes.byteOffset + from, to - from).toString("utf8");
  return text.includes("\\") ? String(JSON.parse(`"${text}"`)) : text;
}
