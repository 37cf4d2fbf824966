import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import type { ConfigInput } from "../../src/config/schema.ts";
import { peerCommands, pythonWithMcp } from "./peer-packages.ts";
import { serveTestKit } from "./served-kit.ts";

/** Servers of other people, and one of the server kit. */
export interface RealServers extends AsyncDisposable {
  /** For a route that has them all behind one endpoint. */
  readonly upstreams: NonNullable<NonNullable<ConfigInput["routes"]>[string]["upstreams"]>;
  /** A folder that `files` serves, with `note.txt` in it. */
  readonly folder: string;
  /** Whether a server in Python is among them. */
  readonly hasPython: boolean;
}

/** Installs the servers, unless that was done before, and starts what is not started by the gateway. */
export async function startRealServers(): Promise<RealServers> {
  const [commands, { python }, kit] = await Promise.all([peerCommands(), pythonWithMcp(), serveTestKit()]);
  const folder = await mkdtemp(join(tmpdir(), "headgate-files-"));
  await writeFile(join(folder, "note.txt"), "remember the milk");
  const [node, everything] = commands["@modelcontextprotocol/server-everything"];
  const [, files] = commands["@modelcontextprotocol/server-filesystem"];
  return {
    upstreams: {
      everything: { command: node, args: [everything, "stdio"] },
      files: { command: node, args: [files, folder] },
      ...(python === undefined
        ? {}
        : { python: { command: python, args: [resolve(import.meta.dirname, "../peers/server.py")] } }),
      kit: { url: kit.url },
    },
    folder,
    hasPython: python !== undefined,
    [Symbol.asyncDispose]: async () => {
      await kit[Symbol.asyncDispose]();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
