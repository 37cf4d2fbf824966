import { open, readdir, rename, rm, type FileHandle } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

import type { Clock } from "../../core/exchange.ts";
import type { AuditConfig } from "./config.ts";

/** A file that is rotated by size and age. */
export interface RotatingFile {
  /** Appends lines; rejects if not all were written. Calls must not overlap. */
  append(lines: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

type Bounds = Pick<AuditConfig, "file" | "maxBytes" | "maxAge" | "keep">;

interface Opened {
  readonly handle: FileHandle;
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
  }

  async function put(text: string, bytes: number): Promise<void> {
    if (bytes === 0) return;
    opened ??= await openFile(file, clock);
    try {
      await opened.handle.appendFile(text);
      opened.size += bytes;
    } catch (error) {
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

  return { append, close };
}

async function openFile(file: string, clock: Pick<Clock, "wall">): Promise<Opened> {
  const handle = await open(file, "a", mode);
  const { size, birthtimeMs } = await handle.stat();
  // The birth time of a file from an earlier run; some file systems do not have it.
  return { handle, size, bornAt: size > 0 && birthtimeMs > 0 ? birthtimeMs : clock.wall() };
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
