import { closeSync, openSync, readdirSync, readFileSync, renameSync, rmSync, statSync, writeSync } from "node:fs";
import { join } from "node:path";

import { ownerOnly } from "../lib/keys/private-file.ts";
import { idFrom, type RequestId } from "../protocol/message.ts";

/**
 * Notes which calls are being answered by streams, for the next process: a client that resumes such a stream gets an
 * error instead of waiting for an answer that is lost.
 */
export interface StreamJournal {
  /** Notes a stream; the returned function notes its end. */
  opened(session: string, requests: readonly RequestId[]): () => void;
  /** The calls of a session that another process was answering when it ended. */
  lostCalls(session: string, node: string): readonly RequestId[];
  close(): void;
}

/** A journal for a gateway that keeps nothing. */
export const noJournal: StreamJournal = { opened: () => () => {}, lostCalls: () => [], close: () => {} };

const maxBytes = 1_048_576;
const keptMs = 30 * 24 * 60 * 60_000;
const fileOf = (node: string): string => `streams-${node}.log`;
const nodePattern = /^[0-9a-f]{8}$/u;

/**
 * Opens the journal of a process in a folder: a file of lines, written at once so that it survives `kill -9`. Journals of
 * other processes that have not been written for a month are deleted.
 */
export function openStreamJournal(folder: string, node: string, wall: () => number): StreamJournal {
  deleteOld(folder, wall() - keptMs);
  const file = join(folder, fileOf(node));
  const open = new Map<number, string>();
  let ended = "";
  let last = 0;
  let bytes = 0;
  let handle = openSync(file, "w", ownerOnly);
  /** Whether a full disk may have taken a part of a line. */
  let isTorn = false;

  function write(text: string): void {
    if (!isTorn) {
      isTorn = true;
      bytes += writeAll(handle, text);
      isTorn = false;
    }
    if (bytes > maxBytes || isTorn) rewrite();
  }

  /** Begins a new file with the open streams. */
  function rewrite(): void {
    const next = `${file}.new`;
    const opened = openSync(next, "w", ownerOnly);
    try {
      bytes = writeAll(opened, [...open.values()].join(""));
      renameSync(next, file);
    } catch (error) {
      closeSync(opened);
      throw error;
    }
    closeSync(handle);
    handle = opened;
    isTorn = false;
  }

  return {
    opened: (session, requests) => {
      const number = ++last;
      const line = `${JSON.stringify([number, session, requests.map(({ key }) => key)])}\n`;
      open.set(number, line);
      // Ends are written with the next stream: a call too many in the journal does no harm.
      write(ended + line);
      ended = "";
      return () => {
        if (open.delete(number)) ended += `${number}\n`;
      };
    },
    lostCalls: (session, other) => {
      if (other === node || !nodePattern.test(other)) return [];
      return readJournal(join(folder, fileOf(other)))
        .filter(([, ofSession]) => ofSession === session)
        .flatMap(([, , keys]) => keys.flatMap(idFromKey));
    },
    close: () => {
      closeSync(handle);
      rmSync(file, { force: true });
    },
  };
}

function writeAll(handle: number, text: string): number {
  const length = Buffer.byteLength(text);
  if (writeSync(handle, text) < length) throw new Error("the disk is full");
  return length;
}

type Line = readonly [number: number, session: string, keys: readonly string[]];

/** The streams in a journal that have not ended. */
function readJournal(file: string): readonly Line[] {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch {
    // That process kept none, or ended in good order.
    return [];
  }
  const open = new Map<number, Line>();
  // The last line may be cut.
  for (const line of text.split("\n").slice(0, -1)) {
    if (line.startsWith("[")) {
      const entry = JSON.parse(line) as Line;
      open.set(entry[0], entry);
    } else open.delete(Number(line));
  }
  return [...open.values()];
}

/** The id with a key, for ids of clients that count. Ids beyond double precision are left out: they are not ids that clients count with. */
export function idFromKey(key: string): readonly RequestId[] {
  if (key.startsWith("s:")) return [idFrom(key.slice(2))];
  const number = key.startsWith("n:") ? Number(key.slice(2)) : Number.NaN;
  return Number.isSafeInteger(number) ? [idFrom(number)] : [];
}

function deleteOld(folder: string, before: number): void {
  for (const name of readdirSync(folder)) {
    if (!/^streams-[0-9a-f]{8}\.log$/u.test(name)) continue;
    const file = join(folder, name);
    if ((statSync(file, { throwIfNoEntry: false })?.mtimeMs ?? before) < before) rmSync(file, { force: true });
  }
}
