import { isDeepStrictEqual } from "node:util";
import type { Config } from "../config/config.ts";

/** What differs between two configurations. */
export interface ConfigChanges {
  /** Where they differ, as paths like `routes.files.timeouts.tool`; values are not told, they may be secrets. */
  readonly paths: readonly string[];
  /** Those of them that only a restart can bring about. */
  readonly needsRestart: readonly string[];
  /** The new configuration as far as a running gateway can take it. */
  readonly applicable: Config;
}

/** What is fixed when a listener opens or the log begins. */
const fixed = [
  "listen.host",
  "listen.port",
  "listen.unixSocket",
  "listen.tls",
  "admin",
  "limits.headerBytes",
  "log.format",
  "record",
  "drift",
];

/** Compares the configuration that runs with another one. */
export function compareConfigs(running: Config, next: Config): ConfigChanges {
  const { secrets: _old, ...before } = running;
  const { secrets: _new, ...after } = next;
  const paths = differences(before, after, "");
  const { host, port, unixSocket, tls } = running.listen;
  return {
    paths,
    needsRestart: paths.filter((path) => fixed.some((start) => path === start || path.startsWith(`${start}.`))),
    applicable: {
      ...next,
      listen: { ...next.listen, host, port, unixSocket, tls },
      admin: running.admin,
      limits: { ...next.limits, headerBytes: running.limits.headerBytes },
      log: { ...next.log, format: running.log.format },
      record: running.record,
      drift: running.drift,
    },
  };
}

function differences(one: unknown, other: unknown, path: string): string[] {
  if (isDeepStrictEqual(one, other)) return [];
  if (!isPlain(one) || !isPlain(other)) return [path];
  const keys = new Set([...Object.keys(one), ...Object.keys(other)]);
  return [...keys].flatMap((key) => differences(one[key], other[key], path === "" ? key : `${path}.${key}`));
}

function isPlain(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
