import { isDeepStrictEqual } from "node:util";
import type { Config } from "../config/config.ts";

/** The differences between two configurations. */
export interface ConfigChanges {
  /** Paths such as `routes.files.timeouts.tool`, without values, which may be secret. */
  readonly paths: readonly string[];
  /** The changes among them that need a restart. */
  readonly needsRestart: readonly string[];
  /** The new configuration without the changes that need a restart. */
  readonly applicable: Config;
}

/** What is fixed when the gateway starts. */
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

/** Compares the running configuration with another one. */
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
