import { open, stat } from "node:fs/promises";
import { setTimeout as wait } from "node:timers/promises";

import { GatewayError } from "../errors.ts";
import type { FilterCondition } from "../recorder/contract.ts";
import type { CaptureLine, RecordReader, RecordStore } from "../recorder/store-contract.ts";
import { readCaptureFile } from "../recorder/replay/capture-file.ts";
import { createCaptureReader } from "../recorder/replay/capture-reader.ts";
import type { CliIo } from "./io.ts";
import { resolveStore, type StoreArguments } from "./recording-place.ts";

type StoreIo = Pick<CliIo, "err" | "env" | "readFile">;

/** Waits, and ends quietly when nobody wants it any more. */
const pause = async (milliseconds: number, signal: AbortSignal): Promise<void> => {
  await wait(milliseconds, undefined, { signal }).catch(() => {});
};

/** What a place holds, by its name and its first bytes; throws where there is nothing. */
export async function detectStoreKind(place: string): Promise<"capture" | "sqlite" | "postgres"> {
  if (isPostgres(place)) return "postgres";
  const facts = await stat(place).catch(() => undefined);
  if (facts === undefined) throw new GatewayError("store_failed", `there is no ${place}`);
  if (!facts.isFile()) throw new GatewayError("store_failed", `${place} is no file`);
  const handle = await open(place);
  try {
    const { buffer } = await handle.read(Buffer.alloc(15), 0, 15, 0);
    return buffer.toString("latin1") === "SQLite format 3" ? "sqlite" : "capture";
  } finally {
    await handle.close();
  }
}

/** Opens recordings for reading, whatever they are in. */
export async function openReader(words: StoreArguments, io: StoreIo): Promise<RecordReader> {
  return openReaderAt(await resolveStore(words, io), io);
}

/** Opens the recordings at a place for reading. */
async function openReaderAt(place: string, io: Pick<CliIo, "err">): Promise<RecordReader> {
  switch (await detectStoreKind(place)) {
    case "capture":
      return createCaptureReader(fileLines(place, io), place);
    case "sqlite":
      return (await import("../recorder/sqlite/store.ts")).openSqliteReader(place, { wait: pause });
    case "postgres":
      return (await import("../recorder/postgres/store.ts")).openPostgresReader(place, { wait: pause });
  }
}

/** Opens recordings for changing; a file that is not there is made only where that is asked for. */
export async function openStore(words: StoreArguments, io: StoreIo, makes: boolean): Promise<RecordStore> {
  const place = await resolveStore(words, io);
  const options = { wait: pause, wall: () => Date.now() };
  const isThere = isPostgres(place) || (await stat(place).catch(() => undefined)) !== undefined;
  const kind = isThere || !makes ? await detectStoreKind(place) : "sqlite";
  switch (kind) {
    case "capture":
      throw new GatewayError("store_failed", `${place} is a capture file, which is read and never changed`);
    case "sqlite":
      return (await import("../recorder/sqlite/store.ts")).openSqliteStore({ file: place }, options);
    case "postgres":
      return (await import("../recorder/postgres/store.ts")).openPostgresStore(place, options);
  }
}

/** The lines of the recordings at a place, those of a file as they are read. */
export async function* readLines(
  place: string,
  io: Pick<CliIo, "err">,
  where?: FilterCondition,
): AsyncIterable<CaptureLine> {
  if (where === undefined && (await detectStoreKind(place)) === "capture") yield* fileLines(place, io);
  else {
    await using reader = await openReaderAt(place, io);
    yield* reader.export(where === undefined ? {} : { where, wholeOperations: true });
  }
}

function fileLines(file: string, io: Pick<CliIo, "err">): AsyncIterable<CaptureLine> {
  return readCaptureFile(file, { onWarning: (warning) => io.err(`headgate: ${warning}\n`) });
}

function isPostgres(place: string): boolean {
  return /^postgres(?:ql)?:\/\//u.test(place);
}
