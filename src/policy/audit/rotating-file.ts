import { open, readdir, rename, rm, stat, type FileHandle } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

import type { Clock } from "../../core/exchange.ts";
import type { AuditConfig } from "./audit-stream.ts";

/** A file that is rotated by size and age. */
export interface RotatingFile {
  /** Appends lines; rejects if not all were written. Calls must not overlap. */
  append(lines: readonly string[]): Promise<void>;
  /** Opens the file if needed. Rejects if the open file is no longer at its path; the next call opens a new one. */
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
  readonly bornAt: number;
  size: number;
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
    const { dev, ino } = (opened ??= await openFile(file, clock));
    const found = await stat(file).catch(() => undefined);
    if (found?.dev === dev && found.ino === ino) return;
    await close();
    throw new Error(`${file} was deleted or moved; decisions go to a new file`);
  }

  async function put(text: string, bytes: number): Promise<void> {
    if (bytes === 0) return;
    opened ??= await openFile(file, clock);
    try {
      await opened.handle.appendFile(text);
      opened.size += bytes;
    } catch (error) {
      // A full disk takes part of a line; the batch is written again, so no part of it may stay.
      await opened.handle.truncate(opened.size).catch(() => {});
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
    const { size: found, birthtimeMs, dev, ino } = await handle.stat();
    const size = await endOfLines(handle, found);
    if (size < found) await handle.truncate(size);
    // The birth time of a file from an earlier run; some file systems do not have it.
    return { handle, dev, ino, size, bornAt: size > 0 && birthtimeMs > 0 ? birthtimeMs : clock.wall() };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

const chunkBytes = 65_536;

/** Where the last whole line ends: a killed process or a full disk may have left part of one. */
async function endOfLines(handle: FileHandle, size: number): Promise<number> {
  const chunk = Buffer.alloc(Math.min(chunkBytes, size));
  for (let end = size; end > 0;) {
    const start = Math.max(0, end - chunk.length);
    const { bytesRead } = await handle.read(chunk, 0, end - start, start);
    const newline = chunk.subarray(0, bytesRead).lastIndexOf(0x0a);
    if (newline >= 0) return start + newline + 1;
    end = start;
  }
  return 0;
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
