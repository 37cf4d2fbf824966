// A process of clients of the official SDK: each has a session of its own and calls as soon as its last answer is there.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { serveJobs } from "../worker.ts";

/** Who is called, in how many sessions, and how often in all. */
export interface ClientsJob {
  readonly url: string;
  readonly sessions: number;
  readonly calls: number;
}

/** What came of it; latencies in milliseconds. */
export interface ClientsResult {
  readonly perSecond: number;
  readonly latencies: readonly number[];
}

/** Sessions stay open from one job to the next: what is measured is calls, not handshakes. */
const open = new Map<string, Promise<Client>[]>();
let texts = 0;

serveJobs(work);

async function work({ url, sessions, calls }: ClientsJob): Promise<ClientsResult> {
  const clients = await clientsOf(url, sessions);
  const latencies: number[] = [];
  let left = calls;
  const start = performance.now();
  await Promise.all(
    clients.map(async (client) => {
      while (left > 0) {
        left -= 1;
        texts += 1;
        const sent = performance.now();
        // No two calls are the same: a cache would answer for the server.
        await client.callTool({ name: "echo", arguments: { text: `call ${texts}` } });
        latencies.push(performance.now() - sent);
      }
    }),
  );
  return { perSecond: (latencies.length * 1000) / (performance.now() - start), latencies };
}

async function clientsOf(url: string, sessions: number): Promise<readonly Client[]> {
  const known = open.get(url) ?? [];
  open.set(url, known);
  while (known.length < sessions) known.push(connect(url));
  return Promise.all(known.slice(0, sessions));
}

async function connect(url: string): Promise<Client> {
  const client = new Client({ name: "bench", version: "1.0.0" });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  return client;
}
