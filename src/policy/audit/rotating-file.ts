import { open, readdir, rename, rm, stat, type FileHandle } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

import type { Clock } from "../../core/exchange.ts";
import type { AuditConfig } from "./audit-stream.ts";

/** A file that is rotated by size and age. */
export interface RotatingFile {
  /** Appends lines; rejects if not all were written. Calls must not overlap. */
  append(lines: readonly string[]): Promise<void>;
  /** Opens the file if needed. Rejects if others moved or changed the open file; the next call opens it again. */
  check(): Promise<void>;
  close(): Promise<void>;
}

type Bounds = Pick<AuditConfig, "file" | "maxBytes" | "maxAge" | "keep">;

/** Writes the audit files of several processes, in one of them. */
export interface SharedAuditFiles {
  /** Appends lines to a file, after those of others; without lines, checks that it is still there. */
  readonly append: (bounds: Bounds, lines: readonly string[]) => Promise<void>;
  close(): Promise<void>;
}

/** Creates the files. Of two settings for one file, the last one counts. */
export function createSharedAuditFiles(clock: Pick<Clock, "wall">): SharedAuditFiles {
  const files = new Map<string, { readonly settings: string; readonly file: RotatingFile }>();
  let turn: Promise<void> = Promise.resolve();

  async function append({ file: path, maxBytes, maxAge, keep }: Bounds, lines: readonly string[]): Promise<void> {
    const bounds = { file: path, maxBytes, maxAge, keep };
    const settings = JSON.stringify(bounds);
    let known = files.get(path);
    if (known?.settings !== settings) {
      await known?.file.close();
      known = { settings, file: createRotatingFile(bounds, clock) };
      files.set(path, known);
    }
    await (lines.length === 0 ? known.file.check() : known.file.append(lines));
  }

  return {
    append: (bounds, lines) => {
      const mine = turn.then(() => append(bounds, lines));
      turn = mine.catch(() => {});
      return mine;
    },
    close: async () => {
      await turn;
      await Promise.all([...files.values()].map(({ file }) => file.close()));
    },
  };
}

interface Opened {
  readonly handle: FileHandle;
  readonly dev: number;
  readonly ino: number;
  /** A pipe or a device has no content to compare. */
  readonly isFile: boolean;
  readonly bornAt: number;
  size: number;
  /** The last bytes, if no other process has written since. */
  tail: Buffer | undefined;
}

/** Readable by the owner only. */
const mode = 0o600;

/** Creates the file; it is opened by the first write, and again after a failed one. */
export function createRotatingFile(bounds: Bounds, clock: Pick<Clock, "wall">): RotatingFile {
  const { file, maxBytes, maxAge } = bounds;
  let opened: Opened | undefined;

  async function append(lines: readonly string[]): Promise<void> {
    let pending = "";
    let pendingBytes = 0;
    await check();
    for (const text of lines) {
      const bytes = Buffer.byteLength(text);
      const { size, bornAt } = (opened ??= await openFile(file, clock));
      const isFull = size + pendingBytes + bytes > maxBytes || clock.wall() - bornAt >= maxAge;
      if (isFull && size + pendingBytes > 0) {
        await put(pending, pendingBytes);
        [pending, pendingBytes] = ["", 0];
        await rotate();
      }
      pending += text;
      pendingBytes += bytes;
    }
    await put(pending, pendingBytes);
    // If the file was removed meanwhile, nobody can read these lines, so they are written again.
    await check();
  }

  async function check(): Promise<void> {
    const present = (opened ??= await openFile(file, clock));
    const found = await stat(file).catch(() => undefined);
    if (found?.dev !== present.dev || found.ino !== present.ino)
      throw await closed("was deleted or moved; decisions go to a new file");
    if (!present.isFile) return;
    if (found.size < present.size) throw await closed("was cut off by another program; what it held is lost");
    const { tail, handle } = present;
    if (tail !== undefined && !tail.equals(await readBefore(handle, present.size, tail.length)))
      throw await closed("was overwritten by another program; what it held is lost");
    // Another process may write to it, too. What it wrote must stay when a write of ours fails.
    if (found.size > present.size) Object.assign(present, { size: found.size, tail: undefined });
  }

  async function closed(what: string): Promise<Error> {
    await close();
    return new Error(`${file} ${what}`);
  }

  async function put(text: string, bytes: number): Promise<void> {
    if (bytes === 0) return;
    const present = (opened ??= await openFile(file, clock));
    const { handle } = present;
    try {
      const ending = present.isFile ? await readBefore(handle, present.size, 1) : Buffer.alloc(0);
      // Half a line of another process must not become part of ours.
      const start = ending.length === 0 || ending[0] === newline ? "" : "\n";
      await handle.appendFile(start + text);
      present.size += start.length + bytes;
      const isAlone = present.isFile && (await handle.stat()).size === present.size;
      // Cut as bytes: a part of a character would be written differently.
      present.tail = isAlone ? Buffer.from(text).subarray(-tailLength) : undefined;
    } catch (error) {
      // A full disk takes part of a line; the batch is written again, so no part of it may stay.
      await handle.truncate(present.size).catch(() => {});
      await close();
      throw error;
    }
  }

  async function rotate(): Promise<void> {
    await close();
    await rename(file, await freeName(file, clock.wall()));
    await removeOld(bounds);
  }

  async function close(): Promise<void> {
    const handle = opened?.handle;
    opened = undefined;
    await handle?.close();
  }

  return { append, check, close };
}

async function openFile(file: string, clock: Pick<Clock, "wall">): Promise<Opened> {
  const handle = await open(file, "a+", mode);
  try {
    const found = await handle.stat();
    const { birthtimeMs, dev, ino } = found;
    const isFile = found.isFile();
    if (isFile && !isOurs(await readBefore(handle, Math.min(found.size, lineStart.length), lineStart.length)))
      throw new Error(`${file} was written by another program; move it away, or choose another path`);
    const size = isFile ? await endOfLines(handle, found.size) : 0;
    if (size < found.size && isFile) await handle.truncate(size);
    // The birth time of a file from an earlier run; some file systems do not have it.
    const bornAt = size > 0 && birthtimeMs > 0 ? birthtimeMs : clock.wall();
    return { handle, dev, ino, isFile, size, tail: undefined, bornAt };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** How every line begins. */
const lineStart = Buffer.from('{"time":"');
const newline = 0x0a;
/** With the time and the id of the last decision. */
const tailLength = 1024;
const chunkBytes = 65_536;

/** Whether text begins like a line of an audit file, of which a part may be missing. */
function isOurs(text: Buffer): boolean {
  const length = Math.min(text.length, lineStart.length);
  return text.subarray(0, length).equals(lineStart.subarray(0, length));
}

/** The bytes before a position. */
async function readBefore(handle: FileHandle, end: number, length: number): Promise<Buffer> {
  const wanted = Math.min(length, end);
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(wanted), 0, wanted, end - wanted);
  return buffer.subarray(0, bytesRead);
}

/**
 * Where the last whole line ends: a killed process or a full disk may have left part of one. Part of a line of another
 * program stays.
 */
async function endOfLines(handle: FileHandle, size: number): Promise<number> {
  const chunk = Buffer.alloc(Math.min(chunkBytes, size));
  let rest = Buffer.alloc(0);
  for (let end = size; end > 0;) {
    const start = Math.max(0, end - chunk.length);
    const { bytesRead } = await handle.read(chunk, 0, end - start, start);
    const at = chunk.subarray(0, bytesRead).lastIndexOf(newline);
    rest = Buffer.concat([chunk.subarray(at + 1, bytesRead), rest.subarray(0, lineStart.length)]);
    if (at >= 0) return isOurs(rest) ? start + at + 1 : size;
    end = start;
  }
  return isOurs(rest) ? 0 : size;
}

/** `audit.ndjson` becomes `audit.ndjson.20261115T120000000Z-000`; the number counts files of one millisecond. */
async function freeName(file: string, wallTime: number): Promise<string> {
  const stamp = new Date(wallTime).toISOString().replaceAll(/[-:.]/gu, "");
  const prefix = `${basename(file)}.${stamp}-`;
  const taken = (await readdir(dirname(file)))
    .filter((name) => name.startsWith(prefix))
    .map((name) => Number(name.slice(prefix.length)));
  // Not the lowest free number: older files may have been removed already.
  const next = Math.max(-1, ...taken) + 1;
  return join(dirname(file), prefix + String(next).padStart(3, "0"));
}

async function removeOld({ file, keep }: Bounds): Promise<void> {
  const prefix = `${basename(file)}.`;
  const old = (await readdir(dirname(file)))
    .filter((name) => name.startsWith(prefix) && /^\d{8}T\d{9}Z-\d{3,}$/u.test(name.slice(prefix.length)))
    .toSorted();
  for (const name of old.slice(0, Math.max(0, old.length - keep))) await rm(join(dirname(file), name), { force: true });
}
