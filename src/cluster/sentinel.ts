import type { createClient as CreateClient } from "@redis/client";

import type { readTls } from "../lib/keys/pem.ts";
import { connectMs } from "./store-access.ts";

/** Redis Sentinel: servers that know which Redis server is the primary. */
export interface SentinelOptions {
  /** The primary, as they call it. */
  readonly name: string;
  readonly urls: readonly string[];
}

/** Certificate, key and authorities of a connection. */
export type Certificates = ReturnType<typeof readTls>;

/** Options of all our clients: commands fail instead of queueing while there is no connection. */
export function clientOptions(
  url: string,
  commandMs: number,
  reconnectStrategy: false | ((retries: number) => number),
  certificates: Certificates,
) {
  const address = url.replace(/^valkey/u, "redis");
  const socket = { connectTimeout: connectMs, reconnectStrategy };
  return {
    url: address,
    disableOfflineQueue: true,
    maintNotifications: "disabled",
    commandOptions: { timeout: commandMs },
    socket: address.startsWith("rediss:") ? { ...socket, ...certificates, tls: true as const } : socket,
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
  newOptions: (url: string) => ReturnType<typeof clientOptions>,
): Promise<string> {
  const [host, port] = await Promise.any(
    urls.map(async (sentinel) => askSentinel(createClient, newOptions(sentinel), name)),
  );
  const primary = new URL(url);
  primary.hostname = host.includes(":") ? `[${host}]` : host;
  primary.port = port;
  return primary.href;
}

async function askSentinel(
  createClient: typeof CreateClient,
  options: ReturnType<typeof clientOptions>,
  name: string,
): Promise<readonly [host: string, port: string]> {
  const client = createClient({
    ...options,
    // Sentinels before 7.2 do not know the newer protocol.
    RESP: 2,
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
