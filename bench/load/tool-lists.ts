import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { modernRequest, postModern } from "../../test/support/modern-request.ts";
import { discoverResult, isAsk } from "./answers.ts";

/** Modern servers that only list tools, all in this process: what they cost is not the gateway's time. */
export interface ToolLists extends AsyncDisposable {
  /** A server with this many tools, which takes this long for a list and says how long that may be kept. */
  urlOf(server: { readonly tools: number; readonly delayMs?: number; readonly ttlMs?: number }): string;
}

export async function startToolLists(): Promise<ToolLists> {
  const server = createServer((request, response) => {
    void (async () => {
      const [tools = 0, delayMs = 0, ttlMs = 0] = (request.url ?? "").split("/").slice(1).map(Number);
      const ask: unknown = JSON.parse(await text(request));
      if (!isAsk(ask)) return response.writeHead(202).end();
      const isList = ask.method === "tools/list";
      if (isList && delayMs > 0) await sleep(delayMs);
      const result = isList ? toolsResultOf(tools, ttlMs) : discoverResult;
      response.setHeader("content-type", "application/json");
      return response.end(`{"jsonrpc":"2.0","id":${JSON.stringify(ask.id)},"result":${result}}`);
    })();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  // A TCP server has an address and a port.
  const { port } = server.address() as AddressInfo;
  return {
    urlOf: ({ tools, delayMs = 0, ttlMs = 0 }) => `http://127.0.0.1:${port}/${tools}/${delayMs}/${ttlMs}`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await server[Symbol.asyncDispose]();
    },
  };
}

function toolsResultOf(count: number, ttlMs: number): string {
  const tools = Array.from({ length: count }, (_, index) => ({
    name: `find_orders_${index}`,
    description: "Finds the orders of a customer that were placed between two days, newest first.",
    inputSchema: {
      type: "object",
      properties: { customer: { type: "string" }, from: { type: "string" }, to: { type: "string" } },
      required: ["customer"],
    },
  }));
  return JSON.stringify({ resultType: "complete", tools, ttlMs, cacheScope: "public" });
}

/** Reads all pages of a tool list, and returns how many tools there are. */
export async function readTools(url: string): Promise<number> {
  let tools = 0;
  let cursor: string | undefined;
  do {
    const request = modernRequest(1, "tools/list", cursor === undefined ? {} : { cursor });
    const { status, json } = await postModern(url, request);
    if (status !== 200) throw new Error(`tools/list was answered ${status}`);
    const { result } = json as { readonly result: { readonly tools: unknown[]; readonly nextCursor?: string } };
    tools += result.tools.length;
    cursor = result.nextCursor;
  } while (cursor !== undefined);
  return tools;
}
