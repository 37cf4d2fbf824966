import { createInterface } from "node:readline";
import type { Readable } from "node:stream";

import type {
  Client,
  ElicitRequestParams,
  ElicitResult,
  FetchLike,
  Transport,
} from "@modelcontextprotocol/client";

import { proxyFromEnvironment } from "../config/proxy.ts";
import type { Environment } from "../config/substitute.ts";
import { toClientFailure, statusOf } from "./client-failure.ts";
import type { ClientTarget } from "./client-target.ts";
import { exitCodes } from "./exit-codes.ts";
import type { CliIo } from "./io.ts";
import { printableLine } from "./text-layout.ts";
import { packageVersion } from "./version.ts";

// Long enough for a package to be downloaded before it starts.
const connectTimeoutMs = 60_000;
// A legacy server on stdio may never answer the question for the modern era; nobody wants to wait long to hear so.
const probeTimeoutMs = { http: 30_000, stdio: 10_000 } as const;
const socketTimeoutMs = 10_000;
const endTimeoutMs = 2_000;

/** How a command takes part in what a server starts. */
export interface ElicitationSupport {
  /** Answers a question of the server; without it the client says that it cannot be asked. */
  readonly answer?: (question: ElicitRequestParams) => Promise<ElicitResult>;
  /** Whether it can also be sent to a web page. */
  readonly opensUrls?: boolean;
}

/**
 * Connects to a server in the newest era that both speak, lets `use` have the client, and ends the connection. What goes
 * wrong is said in one line, and the answer is the exit code.
 */
export async function withClient(
  target: ClientTarget,
  io: Pick<CliIo, "err" | "env">,
  role: ElicitationSupport,
  use: (client: Client) => Promise<number>,
): Promise<number> {
  const connections = target.type === "http" ? await createFetch(target.url, io.env) : undefined;
  try {
    await using connection = await connect(target, io, role, connections?.fetch);
    return await use(connection.client);
  } catch (error) {
    const { exit, message } = toClientFailure(error, target);
    io.err(`headgate: ${message}\n`);
    return exitCodes[exit].code;
  } finally {
    await connections?.close();
  }
}

interface ClientConnection extends AsyncDisposable {
  readonly client: Client;
}

async function connect(
  target: ClientTarget,
  io: Pick<CliIo, "err">,
  role: ElicitationSupport,
  fetch: FetchLike | undefined,
): Promise<ClientConnection> {
  const sdk = await import("@modelcontextprotocol/client");
  const open = async (mode: "auto" | "legacy", transport: Transport): Promise<ClientConnection> => {
    const client = new sdk.Client(
      { name: "headgate", title: "Headgate command line", version: packageVersion() },
      {
        versionNegotiation: { mode, probe: { timeoutMs: probeTimeoutMs[target.type] } },
        ...(role.answer === undefined
          ? {}
          : {
              capabilities: { elicitation: { form: {}, ...(role.opensUrls === true ? { url: {} } : {}) } },
            }),
      },
    );
    const { answer } = role;
    if (answer !== undefined) {
      client.setRequestHandler("elicitation/create", ({ params }) => answer(params));
    }
    client.setNotificationHandler("notifications/message", ({ params: { level, data } }) => {
      io.err(`${level}: ${printableLine(typeof data === "string" ? data : JSON.stringify(data))}\n`);
    });
    try {
      await withTimeout(connectTimeoutMs, client.connect(transport, { timeout: connectTimeoutMs }));
    } catch (error) {
      await transport.close();
      throw error;
    }
    return { client, [Symbol.asyncDispose]: () => endSession(client, transport) };
  };

  if (target.type === "stdio") {
    const { StdioClientTransport } = await import("@modelcontextprotocol/client/stdio");
    const { command, args } = target;
    const transport = new StdioClientTransport({ command, args: [...args], stderr: "pipe" });
    if (transport.stderr !== null) showLines(transport.stderr as Readable, io);
    return open("auto", transport);
  }
  const { url } = target;
  const options = { requestInit: { headers: target.headers }, ...(fetch === undefined ? {} : { fetch }) };
  try {
    return await open("auto", new sdk.StreamableHTTPClientTransport(url, options));
  } catch (error) {
    // MCP 2025-11-25, Transports, "Backwards compatibility": these three tell of a server that has HTTP+SSE only.
    if (![400, 404, 405].includes(statusOf(error) ?? 0)) throw error;
    try {
      return await open("legacy", new sdk.SSEClientTransport(url, options));
    } catch {
      throw error;
    }
  }
}

/** Tells the server of a session that it is over, and closes. */
async function endSession(client: Client, transport: Transport): Promise<void> {
  const terminate: unknown = Reflect.get(transport, "terminateSession");
  if (typeof terminate === "function") {
    try {
      await withTimeout(endTimeoutMs, Promise.resolve(terminate.call(transport)));
    } catch {
      // The session then ends by itself, and the work is done.
    }
  }
  await client.close();
}

/**
 * A fetch of our own: through the proxy of the environment, and without the limits of Node's, which would end a quiet
 * call after five minutes.
 */
async function createFetch(url: URL, env: Environment) {
  const undici = await import("undici");
  const limits = { headersTimeout: 0, bodyTimeout: 0, connect: { timeout: socketTimeoutMs } };
  const proxy = proxyFromEnvironment(url, env);
  const dispatcher =
    proxy === undefined
      ? new undici.Agent(limits)
      : new undici.ProxyAgent({ uri: proxy, proxyTunnel: false, ...limits });
  const fetch: FetchLike = (input, init) => {
    // Both are the fetch of the standard, with types that are declared twice.
    const own = { ...init, dispatcher } as unknown as Parameters<typeof undici.fetch>[1];
    return undici.fetch(input, own);
  };
  return { fetch, close: () => dispatcher.destroy() };
}

function showLines(stream: Readable, io: Pick<CliIo, "err">): void {
  createInterface({ input: stream }).on("line", (line) => io.err(`${printableLine(line)}\n`));
}

/** The result of some work, or a failure if it takes longer than this. */
async function withTimeout<Result>(milliseconds: number, work: Promise<Result>): Promise<Result> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    late.reject(Object.assign(new Error("it takes too long"), { code: "REQUEST_TIMEOUT" }));
  }, milliseconds);
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
