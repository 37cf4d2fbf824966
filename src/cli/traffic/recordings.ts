import { open, stat } from "node:fs/promises";
import { setTimeout as wait } from "node:timers/promises";
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { homedir } from "node:os";

import { GatewayError } from "../../errors.ts";
import type { FilterCondition } from "../../recorder/contract.ts";
import type { CaptureLine, RecordReader, RecordStore } from "../../recorder/store/store-contract.ts";
import { createCaptureReader, readCaptureFile } from "../../recorder/store/capture-file.ts";
import type { CliIo } from "../io.ts";
import type { Config } from "../../config/config.ts";
import type { Environment } from "../../config/substitute.ts";
import { recordConfig } from "../../recorder/config.ts";
import { loadConfig } from "../../config/load.ts";
import { formatProblem } from "../../config/problem.ts";

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
      return (await import("../../recorder/store/sqlite.ts")).openSqliteReader(place, { wait: pause });
    case "postgres":
      return (await import("../../recorder/store/postgres.ts")).openPostgresReader(place, { wait: pause });
  }
}

/** Opens recordings for changing; a file that is not there is made only where that is asked for. */
export async function openStore(words: StoreArguments, io: StoreIo, makes: boolean): Promise<RecordStore> {
  const place = await resolveStore(words, io);
  const deps = { wait: pause };
  const isThere = isPostgres(place) || (await stat(place).catch(() => undefined)) !== undefined;
  const kind = isThere || !makes ? await detectStoreKind(place) : "sqlite";
  switch (kind) {
    case "capture":
      throw new GatewayError("store_failed", `${place} is a capture file, which is read and never changed`);
    case "sqlite":
      return (await import("../../recorder/store/sqlite.ts")).openSqliteStore({ file: place }, deps);
    case "postgres":
      return (await import("../../recorder/store/postgres.ts")).openPostgresStore(place, deps);
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

/** What says where the user's own folder is; without any of it there is nobody to keep recordings for. */
const homes = ["HOME", "XDG_DATA_HOME", "LOCALAPPDATA"] as const;

/** The configuration with recording on, to the user's own file, unless it says otherwise itself. */
export function withDefaultRecord(config: Config, env: Environment): Config {
  const { record } = config;
  const isPlaced = record !== undefined && record !== false && (record.file ?? record.postgres) !== undefined;
  if (record === false || isPlaced) return config;
  if (homes.every((name) => (env[name] ?? "") === "")) return { ...config, record: false };
  const file = defaultRecordingFile(env);
  const settings = recordConfig.parse({});
  return settings === false ? config : { ...config, record: { ...settings, ...record, file } };
}

/** Makes the folder of the user's own file, for its owner only; a file elsewhere has a folder already. */
export function prepareRecordFolder({ record }: Config, env: Environment): void {
  if (record === undefined || record === false || record.file === undefined) return;
  if (record.file !== defaultRecordingFile(env)) return;
  try {
    mkdirSync(dirname(record.file), { recursive: true, mode: 0o700 });
  } catch {
    // Opening the file says what is wrong, and the gateway goes on without it.
  }
}

/** Which recordings are meant, as the command line says it. */
export interface StoreArguments {
  readonly store?: string | undefined;
  readonly config?: string | undefined;
}

/** The file that a gateway writes to unless it is told otherwise: in the user's own data folder. */
export function defaultRecordingFile(env: Environment, platform: NodeJS.Platform = process.platform): string {
  const home = env["HOME"] ?? homedir();
  const folders: Readonly<Partial<Record<NodeJS.Platform, string>>> = {
    darwin: join(home, "Library", "Application Support"),
    win32: env["LOCALAPPDATA"] ?? join(home, "AppData", "Local"),
  };
  // XDG Base Directory Specification: a path that is not absolute is to be ignored.
  const xdg = env["XDG_DATA_HOME"];
  const unix = xdg?.startsWith("/") === true ? xdg : join(home, ".local", "share");
  return join(folders[platform] ?? unix, "headgate", "recordings.sqlite");
}

/** Where the recordings are that the command line means: a path or the URL of a database. */
export async function resolveStore(
  { store, config: file }: StoreArguments,
  { env, readFile }: Pick<CliIo, "env" | "readFile">,
): Promise<string> {
  if (store !== undefined && file !== undefined)
    throw new GatewayError("config_invalid", "give one of --store and --config, not both");
  if (store !== undefined) return store;
  if (file === undefined) return defaultRecordingFile(env);
  const loaded = await loadConfig({ file, env, readFile });
  if (!loaded.ok) {
    const problems = loaded.problems.map((problem) => formatProblem(problem, file));
    throw new GatewayError("config_invalid", problems.join("\n"));
  }
  const { record } = loaded.config;
  if (record === false) throw new GatewayError("config_invalid", `${file} says that nothing is recorded`);
  return record?.postgres ?? record?.file ?? defaultRecordingFile(env);
}
