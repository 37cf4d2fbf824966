import { open, readdir, rename, rm, type FileHandle } from "node:fs/promises";
import { basename, dirname, join } from "node:path";

import type { Clock } from "../../core/exchange.ts";
import type { AuditConfig } from "./config.ts";

/** A file that is begun anew when it gets too large or too old. */
export interface RotatingFile {
  /** Writes texts at its end; rejects when not all of them could be written. Never called again before it is done. */
  append(texts: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

type Bounds = Pick<AuditConfig, "file" | "maxBytes" | "maxAge" | "keep">;

interface Opened {
  readonly handle: FileHandle;
  readonly bornAt: number;
  size: number;
}

/** Only the owner may read who did what. */
const mode = 0o600;

/** Makes such a file; it is opened by the first write, and again after one that failed. */
export function createRotatingFile(bounds: Bounds, clock: Pick<Clock, "wall">): RotatingFile {
  const { file, maxBytes, maxAge } = bounds;
  let opened: Opened | undefined;

  async function append(texts: readonly string[]): Promise<void> {
    let pending = "";
    let pendingBytes = 0;
    for (const text of texts) {
      const bytes = Buffer.byteLength(text);
      const { size, bornAt } = (opened ??= await openFile(file, clock));
      const isFull = size + pendingBytes + bytes > maxBytes || clock.wall() - bornAt >= maxAge;
      if (isFull && size + pendingBytes > 0) {
        await put(pending, pendingBytes);
        [pending, pendingBytes] = ["", 0];
        await turnOver();
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

  async function turnOver(): Promise<void> {
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
  // A file of an earlier run has its age already; some file systems do not tell it.
  return { handle, size, bornAt: size > 0 && birthtimeMs > 0 ? birthtimeMs : clock.wall() };
}

/** `audit.ndjson` becomes `audit.ndjson.20261115T120000000Z-000`; the number counts files of the same moment. */
async function freeName(file: string, wallTime: number): Promise<string> {
  const stamp = new Date(wallTime).toISOString().replaceAll(/[-:.]/gu, "");
  const prefix = `${basename(file)}.${stamp}-`;
  const taken = (await readdir(dirname(file)))
    .filter((name) => name.startsWith(prefix))
    .map((name) => Number(name.slice(prefix.length)));
  // One more than the highest, not the lowest that is free: older files may have been removed already.
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
