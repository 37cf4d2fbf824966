import { mkdirSync } from "node:fs";
import { dirname } from "node:path";

import type { Config } from "../config/config.ts";
import type { Environment } from "../config/substitute.ts";
import { recordConfig } from "../recorder/config.ts";
import { defaultRecordingFile } from "./recording-place.ts";

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
