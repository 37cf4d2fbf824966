import { createReadStream } from "node:fs";
import { open } from "node:fs/promises";
import { PassThrough, type Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip, createGzip } from "node:zlib";

import { createPrivateFile } from "../../lib/keys/private-file.ts";
import { GatewayError } from "../../errors.ts";
import { isObject } from "../../lib/is-object.ts";
import { createLineReader } from "../../protocol/line-framing.ts";
import {
  captureFormat,
  type CaptureRecord,
  type ExchangeRecord,
  type FilterCondition,
  type Frame,
} from "../contract.ts";
import { deriveExchanges, deriveOperation } from "../derive.ts";
import { bodiesOf, createConditionMatcher } from "../filter/condition.ts";
import { fillRepeatedBodies } from "./sql-reader.ts";
import { captureTotals, createStatsCounter } from "./stats.ts";
import type { CaptureLine, ExportQuery, RecordReader } from "./store-contract.ts";

/** How to read a capture file. */
export interface CaptureFileOptions {
  /** Called for problems that do not stop the reading. */
  readonly onWarning?: (warning: string) => void;
  /** Called with the number of bytes read so far. */
  readonly onBytes?: (bytes: number) => void;
}

const maxLineBytes = 256 * 1024 * 1024;

const types: ReadonlySet<unknown> = new Set(["capture", "frame", "exchange", "end"]);

/** Reads the lines of a capture file, gzipped or not. Of a file that was cut off, it reads what is there. */
export async function* readCaptureFile(file: string, options: CaptureFileOptions = {}): AsyncIterable<CaptureLine> {
  const isZipped = await isGzip(file);
  const raw = createReadStream(file);
  let source: Readable = raw;
  if (isZipped) {
    const unpacked = createGunzip();
    raw.once("error", (error) => unpacked.destroy(error));
    source = raw.pipe(unpacked);
  }
  let lines = 0;
  for await (const line of readCaptureLines(source, file, options)) {
    if (++lines % 1000 === 0) options.onBytes?.(raw.bytesRead);
    yield line;
  }
}

async function* readCaptureLines(
  source: Readable,
  name: string,
  { onWarning }: CaptureFileOptions = {},
): AsyncIterable<CaptureLine> {
  let ready: Buffer[] = [];
  let number = 0;
  const reader = createLineReader({
    maxLineBytes,
    onLine: (line) => {
      ready.push(line);
    },
    onOverflow: ({ size }) => {
      onWarning?.(`${name} has a line of more than ${size} bytes, which was skipped`);
    },
  });
  let hasEnd = true;
  const take = function* (lines: readonly Buffer[]): Iterable<CaptureLine> {
    for (const line of lines) {
      number++;
      const read = parseCaptureLine(line.toString(), `${name}:${number}`);
      hasEnd = read.type === "end";
      yield read;
    }
  };
  try {
    for await (const chunk of source) {
      // No encoding is set on the stream, so its chunks are bytes.
      reader.push(chunk as Buffer);
      const lines = ready;
      ready = [];
      yield* take(lines);
    }
  } catch (error) {
    // A gzip stream that was cut off.
    if (!(error instanceof Error) || Reflect.get(error, "code") !== "Z_BUF_ERROR") throw error;
    onWarning?.(`${name} was cut off`);
    return;
  }
  const end = reader.end();
  if (!end.complete && end.rest !== undefined) {
    if (isWholeLine(end.rest)) yield* take([end.rest]);
    else onWarning?.(`${name} was cut off in its last line, which was skipped`);
  }
  if (!hasEnd) onWarning?.(`${name} has no end line: it was cut off or is still being written`);
}

/** Writes lines to a capture file, gzipped if its name ends in `.gz`. */
export async function writeCaptureFile(file: string, lines: AsyncIterable<CaptureLine>): Promise<void> {
  const text = async function* (): AsyncIterable<string> {
    for await (const line of lines) yield formatCaptureLine(line);
  };
  const output = file.endsWith(".gz") ? createGzip() : new PassThrough();
  await pipeline(text(), output, await createPrivateFile(file));
}

/** A line of a capture file, with its line feed. */
export function formatCaptureLine(line: CaptureLine): string {
  return `${JSON.stringify(line)}\n`;
}

async function isGzip(file: string): Promise<boolean> {
  const handle = await open(file);
  try {
    const { buffer } = await handle.read(Buffer.alloc(2), 0, 2, 0);
    return buffer[0] === 0x1f && buffer[1] === 0x8b;
  } finally {
    await handle.close();
  }
}

function isWholeLine(rest: Buffer): boolean {
  try {
    JSON.parse(rest.toString());
    return true;
  } catch {
    return false;
  }
}

function parseCaptureLine(text: string, place: string): CaptureLine {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new GatewayError("store_failed", `${place} is not JSON, so this is not a capture file`);
  }
  if (!isObject(value) || !types.has(value["type"])) {
    const message = `${place} is not a line of a capture file: its \`type\` is not one of ${[...types].join(", ")}`;
    throw new GatewayError("store_failed", message);
  }
  const { type, format } = value;
  if (type === "capture" && (typeof format !== "number" || format > captureFormat)) {
    const message = `${place} has capture format ${String(format)}, and this version reads format ${captureFormat}; update headgate`;
    throw new GatewayError("store_failed", message);
  }
  if (type === "frame" && (typeof value["capture"] !== "string" || typeof value["seq"] !== "number"))
    throw new GatewayError("store_failed", `${place}: a frame needs \`capture\` and \`seq\``);
  // The type was checked; the rest is as the writer of this format wrote it.
  return value as unknown as CaptureLine;
}

const matchAll: FilterCondition = { type: "all", of: [] };

interface HeldExchange {
  readonly record: ExchangeRecord;
  readonly frames: readonly Frame[];
}

/** Makes a reader of a capture file, which it holds in memory. */
export async function createCaptureReader(
  lines: AsyncIterable<CaptureLine> | Iterable<CaptureLine>,
  location: string,
): Promise<RecordReader> {
  const captures: CaptureRecord[] = [];
  const frames = new Map<string, Frame[]>();
  for await (const line of lines) {
    if (line.type === "capture") {
      const { type: _type, ...record } = line;
      captures.push(record);
    } else if (line.type === "frame") {
      const { type: _type, ...frame } = line;
      const own = frames.get(frame.capture);
      if (own === undefined) frames.set(frame.capture, [frame]);
      else own.push(frame);
    }
  }
  const held = indexExchanges(frames);

  function select(where: FilterCondition = matchAll): readonly HeldExchange[] {
    const matches = createConditionMatcher(where);
    return held.filter(({ record, frames: own }) => matches(record, () => bodiesOf(own)));
  }

  function find(id: string): HeldExchange | undefined {
    const exact = held.find(({ record }) => record.id === id);
    if (exact !== undefined) return exact;
    const found = held.filter(({ record }) => record.id.startsWith(id));
    return found.length === 1 ? found[0] : undefined;
  }

  async function* exported({ where, wholeOperations, onProgress }: ExportQuery = {}): AsyncIterable<CaptureLine> {
    const chosen = select(where);
    const operations = new Set(chosen.map(({ record }) => `${record.capture} ${record.operation}`));
    const all =
      wholeOperations === true
        ? held.filter(({ record }) => operations.has(`${record.capture} ${record.operation}`))
        : chosen;
    let done = 0;
    for (const capture of captures) {
      const own = all.filter(({ record }) => record.capture === capture.id);
      const kept = new Set(own.map(({ record }) => record.id));
      yield { type: "capture", ...capture };
      const wanted = (frames.get(capture.id) ?? []).filter(({ exchange }) => where === undefined || kept.has(exchange));
      for (const frame of wanted) yield { type: "frame", ...frame };
      for (const { record } of own) yield { type: "exchange", ...record };
      done += own.length;
      onProgress?.(done, all.length);
      yield { type: "end", capture: capture.id, frames: wanted.length, exchanges: own.length };
    }
  }

  const close = async (): Promise<void> => {};
  return {
    format: captureFormat,
    location,
    captures: async () => captures,
    exchanges: async ({ where, order = "newest", limit = 50, cursor }) => {
      const from = cursor === undefined ? 0 : Number(cursor);
      if (!Number.isSafeInteger(from))
        throw new GatewayError("store_failed", `not a cursor of an earlier page: ${cursor ?? ""}`);
      const all = select(where).map(({ record }) => record);
      const ordered = order === "newest" ? all.toReversed() : all;
      const page = ordered.slice(from, from + Math.min(limit, 1000));
      const next = from + page.length;
      return { exchanges: page, ...(next < ordered.length ? { next: String(next) } : {}) };
    },
    exchange: async (id) => find(id)?.record,
    operation: async (id) => {
      const start = find(id)?.record;
      if (start === undefined) return undefined;
      const { capture, operation } = start;
      const own = held.filter(({ record }) => record.capture === capture && record.operation === operation);
      return deriveOperation(own.map(({ record }) => record));
    },
    frames: async (capture, exchange) =>
      fillRepeatedBodies(held.find(({ record }) => record.capture === capture && record.id === exchange)?.frames ?? []),
    // A file does not grow.
    follow: async function* () {},
    stats: async (where) => {
      const chosen = select(where).map(({ record }) => record);
      const counter = createStatsCounter();
      for (const record of chosen) counter.add(record);
      return {
        format: captureFormat,
        location,
        captures: captures.length,
        exchanges: counter.count,
        frames: [...frames.values()].reduce((total, own) => total + own.length, 0),
        bytes: captures.reduce((total, { bytes }) => total + bytes, 0),
        ...captureTotals(captures),
        ...(chosen[0] === undefined ? {} : { oldest: chosen[0].at, newest: chosen.at(-1)?.at ?? chosen[0].at }),
        unindexed: 0,
        rows: counter.rows(),
      };
    },
    export: exported,
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** The exchanges of all captures with their frames, oldest first. */
function indexExchanges(frames: ReadonlyMap<string, readonly Frame[]>): readonly HeldExchange[] {
  const all: HeldExchange[] = [];
  for (const own of frames.values()) {
    const byExchange = Map.groupBy(own, ({ exchange }) => exchange);
    for (const record of deriveExchanges(own)) all.push({ record, frames: byExchange.get(record.id) ?? [] });
  }
  return all.toSorted(
    ({ record: a }, { record: b }) =>
      a.at - b.at || (a.capture < b.capture ? -1 : a.capture > b.capture ? 1 : a.seq - b.seq),
  );
}
