import type { createClient as CreateClient } from "@redis/client";

import { connectMs } from "./store-access.ts";

/** Redis Sentinel: servers that know which Redis server is the primary. */
export interface SentinelOptions {
  /** The primary, as they call it. */
  readonly name: string;
  readonly urls: readonly string[];
}

/** Options of all our clients: commands fail instead of queueing while there is no connection. */
export function clientOptions(url: string, commandMs: number) {
  return {
    url: url.replace(/^valkey/u, "redis"),
    disableOfflineQueue: true,
    maintNotifications: "disabled",
    commandOptions: { timeout: commandMs },
  } as const;
}

/**
 * Asks the sentinels for the address of the primary, and returns the URL with that address; the first answer counts.
 * Uses plain clients instead of the package's Sentinel client, which retries commands by itself.
 */
export async function findPrimary(
  createClient: typeof CreateClient,
  { name, urls }: SentinelOptions,
  url: string,
  commandMs: number,
): Promise<string> {
  const [host, port] = await Promise.any(
    urls.map(async (sentinel) => askSentinel(createClient, sentinel, name, commandMs)),
  );
  const primary = new URL(url);
  primary.hostname = host.includes(":") ? `[${host}]` : host;
  primary.port = port;
  return primary.href;
}

async function askSentinel(
  createClient: typeof CreateClient,
  url: string,
  name: string,
  commandMs: number,
): Promise<readonly [host: string, port: string]> {
  const client = createClient({
    ...clientOptions(url, commandMs),
    // Sentinels before 7.2 do not know the newer protocol.
    RESP: 2,
    socket: { connectTimeout: connectMs, reconnectStrategy: false },
  });
  client.on("error", () => {});
  try {
    await client.connect();
    const address: unknown = await client.sendCommand(["SENTINEL", "GET-MASTER-ADDR-BY-NAME", name]);
    const [host, port] = Array.isArray(address) ? address : [];
    if (host === undefined || port === undefined) throw new Error(`the sentinels know no primary named ${name}`);
    return [String(host), String(port)];
  } finally {
    client.destroy();
  }
}
