import { open, stat } from "node:fs/promises";
import { setTimeout as wait } from "node:timers/promises";
import { mkdirSync } from "node:fs";
import { dirname, join } from "node:path";

import { GatewayError } from "../../errors.ts";
import type { FilterCondition } from "../../recorder/contract.ts";
import type { CaptureLine, RecordReader, RecordStore } from "../../recorder/store/store-contract.ts";
import { createCaptureReader, readCaptureFile } from "../../recorder/store/capture-file.ts";
import type { CliIo } from "../io.ts";
import type { Config } from "../../config/config.ts";
import { loadConfig } from "../../config/load.ts";
import type { Environment } from "../../config/substitute.ts";
import { recordConfig } from "../../recorder/config.ts";
import { dataFolder, hasDataFolder } from "../data-folder.ts";
import { configInFolder, loadConfigFile, UsageError } from "../define-command.ts";

type StoreIo = Pick<CliIo, "err" | "env" | "readFile">;

/** Waits; an abort ends the wait without an error. */
const pause = async (milliseconds: number, signal: AbortSignal): Promise<void> => {
  await wait(milliseconds, undefined, { signal }).catch(() => {});
};

/** What kind of recordings these are, by name and first bytes; throws if there are none. */
export async function detectStoreKind(store: string): Promise<"capture" | "sqlite" | "postgres"> {
  if (isPostgres(store)) return "postgres";
  const facts = await stat(store).catch(() => undefined);
  if (facts === undefined) throw new GatewayError("store_failed", `${store} does not exist`);
  if (!facts.isFile()) throw new GatewayError("store_failed", `${store} is not a file`);
  const handle = await open(store);
  try {
    const { buffer } = await handle.read(Buffer.alloc(15), 0, 15, 0);
    return buffer.toString("latin1") === "SQLite format 3" ? "sqlite" : "capture";
  } finally {
    await handle.close();
  }
}

/** Opens recordings of any kind for reading. */
export async function openReader(args: StoreArguments, io: StoreIo): Promise<RecordReader> {
  return openReaderAt(await resolveStore(args, io), io);
}

async function openReaderAt(store: string, io: Pick<CliIo, "err">): Promise<RecordReader> {
  switch (await detectStoreKind(store)) {
    case "capture":
      return createCaptureReader(fileLines(store, io), store);
    case "sqlite":
      return (await import("../../recorder/store/sqlite.ts")).openSqliteReader(store, { wait: pause });
    case "postgres":
      return (await import("../../recorder/store/postgres.ts")).openPostgresReader(store, { wait: pause });
  }
}

/** Opens recordings for writing; a missing file is an error unless `create` is set. */
export async function openStore(
  args: StoreArguments,
  io: StoreIo,
  { create = false }: { readonly create?: boolean } = {},
): Promise<RecordStore> {
  const store = await resolveStore(args, io);
  const deps = { wait: pause };
  const exists = isPostgres(store) || (await stat(store).catch(() => undefined)) !== undefined;
  const kind = exists || !create ? await detectStoreKind(store) : "sqlite";
  switch (kind) {
    case "capture":
      throw new GatewayError("store_failed", `${store} is a capture file, which cannot be changed`);
    case "sqlite":
      return (await import("../../recorder/store/sqlite.ts")).openSqliteStore({ file: store }, deps);
    case "postgres":
      return (await import("../../recorder/store/postgres.ts")).openPostgresStore(store, deps);
  }
}

/** The recordings as capture lines; a capture file is streamed. */
export async function* readLines(
  store: string,
  io: Pick<CliIo, "err">,
  where?: FilterCondition,
): AsyncIterable<CaptureLine> {
  if (where === undefined && (await detectStoreKind(store)) === "capture") yield* fileLines(store, io);
  else {
    await using reader = await openReaderAt(store, io);
    yield* reader.export(where === undefined ? {} : { where, wholeOperations: true });
  }
}

function fileLines(file: string, io: Pick<CliIo, "err">): AsyncIterable<CaptureLine> {
  return readCaptureFile(file, { onWarning: (warning) => io.err(`headgate: ${warning}\n`) });
}

function isPostgres(store: string): boolean {
  return /^postgres(?:ql)?:\/\//u.test(store);
}

/** The configuration with recording to the user's default file, unless it sets `record` otherwise or there is no home. */
export function withDefaultRecord(config: Config, env: Environment): Config {
  const { record } = config;
  const hasStore = record !== undefined && record !== false && (record.file ?? record.postgres) !== undefined;
  if (record === false || hasStore) return config;
  if (!hasDataFolder(env)) return { ...config, record: false };
  const file = defaultRecordingFile(env);
  const settings = recordConfig.parse({});
  return settings === false ? config : { ...config, record: { ...settings, ...record, file } };
}

/** Creates the private folder of the default recording file; other folders must exist already. */
export function createRecordingFolder({ record }: Config, env: Environment): void {
  if (record === undefined || record === false || record.file === undefined) return;
  if (record.file !== defaultRecordingFile(env)) return;
  try {
    mkdirSync(dirname(record.file), { recursive: true, mode: 0o700 });
  } catch {
    // Opening the file reports the problem, and the gateway runs without recording.
  }
}

/** The options that say which recordings to use. */
export interface StoreArguments {
  readonly store?: string | undefined;
  readonly config?: string | undefined;
}

/** The default recording file, in the user's data folder. */
export function defaultRecordingFile(env: Environment): string {
  return join(dataFolder(env), "recordings.sqlite");
}

/** The path or database URL of the recordings to use. */
export async function resolveStore({ store, config: file }: StoreArguments, io: StoreIo): Promise<string> {
  if (store !== undefined && file !== undefined) throw new UsageError("--store and --config cannot be combined");
  if (store !== undefined) return store;
  if (file === undefined) return (await storeInFolder(io)) ?? defaultRecordingFile(io.env);
  const { record } = await loadConfigFile(file, io);
  if (record === false) throw new GatewayError("config_invalid", `${file} turns recording off`);
  // Without the key this gateway records nothing, and the default file would show the traffic of other gateways.
  if (record === undefined)
    throw new GatewayError("config_invalid", `${file} records nothing; set \`record: true\` in it, or pass --store`);
  return record.postgres ?? record.file ?? defaultRecordingFile(io.env);
}

/** The store that the configuration in this folder names, which `headgate run` uses here; undefined without one. */
async function storeInFolder(io: StoreIo): Promise<string | undefined> {
  const { file, config } = (await readConfigInFolder(io)) ?? {};
  const record = config?.record;
  const store = record === undefined || record === false ? undefined : (record.postgres ?? record.file);
  if (store !== undefined) io.err(`headgate: using ${file} of this folder\n`);
  return store;
}

/** The configuration in this folder and its routes; undefined if there is none that can be read. */
export async function routesInFolder(
  io: StoreIo,
): Promise<{ readonly file: string; readonly routes: readonly string[] } | undefined> {
  const found = await readConfigInFolder(io);
  return found === undefined ? undefined : { file: found.file, routes: Object.keys(found.config.routes) };
}

async function readConfigInFolder(io: StoreIo) {
  const file = configInFolder();
  if (file === undefined) return undefined;
  const loaded = await loadConfig({ file, env: io.env, readFile: io.readFile });
  // Ignores other problems: what a gateway needs, such as an environment variable, may be missing here.
  return loaded.ok ? { file, config: loaded.config } : undefined;
}
