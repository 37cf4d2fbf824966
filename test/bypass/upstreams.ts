import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler } from "@modelcontextprotocol/server";

import type { ConfigInput } from "../../src/config/schema.ts";
import { createLegacySessions } from "../fixtures/everything/legacy-sessions.ts";
import { createToolServer } from "../support/tool-server.ts";
import { closed, createVault, open } from "./vault.ts";
import { trespassIn } from "./wire.ts";

/** A vault behind the gateway. */
export interface Vault extends AsyncDisposable {
  readonly upstream: NonNullable<ConfigInput["upstream"]>;
  /** Where another server stands beside it, behind the same endpoint: how its tools are offered there. */
  readonly amongOthers?: "by its own names" | "renamed" | "renamed and searched";
  /** The tools that keep their names where it is renamed; those of the vault unless given. */
  readonly tools?: readonly string[];
  /** Everything that reached it and had no business there, and every closed thing that was used. */
  readonly reached: () => Promise<readonly string[]>;
}

/** Every era and transport that a server may have. */
export const vaults = {
  "legacy over HTTP": () => overHttp("legacy"),
  "modern over HTTP": () => overHttp("modern"),
  "legacy on stdio": () => onStdio("legacy"),
  "modern on stdio": () => onStdio("modern"),
  "in process": async () => inProcess(),
  "legacy among others": async () => ({ ...(await overHttp("legacy")), amongOthers: "by its own names" }),
  "modern among others": async () => ({ ...(await overHttp("modern")), amongOthers: "by its own names" }),
  "legacy, renamed": async () => ({ ...(await overHttp("legacy")), amongOthers: "renamed" }),
  "modern, searched": async () => ({ ...(await overHttp("modern")), amongOthers: "renamed and searched" }),
} satisfies Readonly<Record<string, () => Promise<Vault>>>;

/** What is behind the gateway: the vault, or the vault and a server beside it. */
export function servedBy({ upstream, amongOthers, tools: named = [open.tool, closed.tool] }: Vault): ConfigInput {
  if (amongOthers === undefined) return { upstream };
  const beside = { server: () => createToolServer({ name: "beside", tools: ["look"], resources: ["beside://all"] }) };
  // A client on stdio waits for nothing, and a URI that nobody lists is tried at both servers.
  const limits = { requestsPerPrincipal: 2000, requests: 4000 };
  const prefix = amongOthers === "by its own names" ? "" : "vault";
  const upstreams = { vault: { ...upstream, prefix }, beside };
  if (prefix === "") return { limits, routes: { vault: { upstreams } } };
  const own: Readonly<Record<string, Readonly<Record<string, { fixed?: string; default?: string }>>>> = {
    [open.tool]: { as: { fixed: '"guest"' } },
    [closed.tool]: { code: { default: "1234" } },
  };
  const tools = Object.fromEntries(named.map((name) => [`${prefix}__${name}`, { name, arguments: own[name] ?? {} }]));
  const everything = { tools: ["*"], prompts: ["*"], resources: ["*"], when: "true", discovery: "search" as const };
  const views = amongOthers === "renamed" ? {} : { everything };
  return { limits, routes: { vault: { upstreams, overrides: { tools }, views } } };
}

async function overHttp(era: "legacy" | "modern"): Promise<Vault> {
  const seen: string[] = [];
  const create = () => createVault((what) => seen.push(`used: ${what}`));
  const fetch = era === "legacy" ? createLegacySessions(create) : createMcpHandler(create, { legacy: "reject" }).fetch;
  const handle = toNodeHandler({
    fetch: async (request: Request) => {
      const text = request.method === "POST" ? await request.clone().text() : "";
      const trespass = text === "" ? undefined : trespassIn(text);
      if (trespass !== undefined) seen.push(trespass);
      return fetch(request);
    },
  });
  const server = createServer((request, response) => {
    // Node sets both on every request that a server receives.
    void handle(request as IncomingMessage & { method: string; url: string }, response);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    // Only a server on a pipe has another kind of address.
    upstream: { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp` },
    reached: async () => seen,
    [Symbol.asyncDispose]: async () => {
      const ended = once(server, "close");
      server.close();
      server.closeAllConnections();
      await ended;
    },
  };
}

async function onStdio(era: "legacy" | "modern"): Promise<Vault> {
  const folder = await mkdtemp(join(tmpdir(), "headgate-vault-"));
  const file = join(folder, "reached");
  const main = join(import.meta.dirname, "vault-main.ts");
  return {
    upstream: { command: process.execPath, args: [main, file, era] },
    reached: async () => {
      const text = await readFile(file, "utf8").catch(() => "");
      return text.split("\n").filter((line) => line !== "");
    },
    [Symbol.asyncDispose]: () => rm(folder, { recursive: true }),
  };
}

function inProcess(): Vault {
  const seen: string[] = [];
  return {
    upstream: { server: () => createVault((what) => seen.push(`used: ${what}`)) },
    reached: async () => seen,
    [Symbol.asyncDispose]: async () => {},
  };
}
