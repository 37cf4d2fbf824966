import { createReadStream, createWriteStream } from "node:fs";
import { open } from "node:fs/promises";
import type { Readable } from "node:stream";
import { Transform } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip, createGzip } from "node:zlib";

import { GatewayError } from "../../errors.ts";
import { createLineReader } from "../../protocol/line-framing.ts";
import { captureFormat } from "../contract.ts";
import { type CaptureLine } from "../store-contract.ts";
import { isObject } from "./match-key.ts";

/** How a capture file is read. */
export interface CaptureFileOptions {
  /** Told of what is wrong and did not keep the rest from being read. */
  readonly onWarning?: (warning: string) => void;
  /** Told how many bytes of the file have been read. */
  readonly onBytes?: (bytes: number) => void;
}

/** Longer than any body that is recorded. */
const maxLineBytes = 256 * 1024 * 1024;

const types: ReadonlySet<unknown> = new Set(["capture", "frame", "exchange", "end"]);

/** The lines of a capture file: NDJSON, unpacked where it is packed. A file that was cut off gives what it has. */
export async function* readCaptureFile(
  file: string,
  options: CaptureFileOptions = {},
): AsyncIterable<CaptureLine> {
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

/** The lines of a capture that comes in as a stream. */
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
      onWarning?.(`${name} has a line of more than ${size} bytes, which was passed over`);
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
    // What was packed and then cut off ends without its last bytes.
    if (!(error instanceof Error) || Reflect.get(error, "code") !== "Z_BUF_ERROR") throw error;
    onWarning?.(`${name} was cut off`);
    return;
  }
  const end = reader.end();
  if (!end.complete && end.rest !== undefined) {
    if (isWholeLine(end.rest)) yield* take([end.rest]);
    else onWarning?.(`${name} was cut off in its last line, which is left out`);
  }
  if (!hasEnd) onWarning?.(`${name} has no end line: it was cut off, or is still being written`);
}

/** Writes lines to a capture file, packed where its name ends in `.gz`; resolves when all of it is there. */
export async function writeCaptureFile(file: string, lines: AsyncIterable<CaptureLine>): Promise<void> {
  const text = async function* (): AsyncIterable<string> {
    for await (const line of lines) yield formatCaptureLine(line);
  };
  const packed = file.endsWith(".gz") ? createGzip() : new Transform({ transform: passThrough });
  await pipeline(text(), packed, createWriteStream(file));
}

/** A line of a capture file with its line feed. */
export function formatCaptureLine(line: CaptureLine): string {
  return `${JSON.stringify(line)}\n`;
}

function passThrough(
  chunk: unknown,
  _encoding: BufferEncoding,
  done: (error: null, chunk: unknown) => void,
): void {
  done(null, chunk);
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
    throw new GatewayError("store_failed", `${place} is no JSON: this is not a capture file`);
  }
  if (!isObject(value) || !types.has(value["type"])) {
    const message = `${place} is no line of a capture: it has no \`type\` of ${[...types].join(", ")}`;
    throw new GatewayError("store_failed", message);
  }
  const { type, format } = value;
  if (type === "capture" && (typeof format !== "number" || format > captureFormat)) {
    const message = `${place} has format ${String(format)}, and this version reads up to ${captureFormat}; update it`;
    throw new GatewayError("store_failed", message);
  }
  if (type === "frame" && (typeof value["capture"] !== "string" || typeof value["seq"] !== "number"))
    throw new GatewayError("store_failed", `${place} is a frame without \`capture\` or \`seq\``);
  // The type was checked, and a writer of this format wrote the rest.
  return value as unknown as CaptureLine;
}
