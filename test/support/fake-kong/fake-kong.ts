import type { Guard, GuardFunction } from "./guard.ts";
import { Exit, LuaError } from "./kit.ts";
import {
  createContext,
  listsOf,
  type ClientRequest,
  type ClientResponse,
  type KongLogLine,
  type RequestContext,
  type UpstreamRequest,
  type UpstreamResponse,
} from "./request.ts";
import { createWorker, type PluginConfig, type Worker } from "./worker.ts";

/** What the query command told of the plugin. */
export interface PluginFacts {
  readonly name: string;
  readonly phases: readonly string[];
}

/** How Kong is set up. */
export interface FakeKongOptions {
  readonly socket: string;
  readonly plugin: PluginFacts;
  readonly config: Readonly<Record<string, unknown>>;
  readonly workers?: number;
  readonly guard?: Guard;
  readonly timeoutMs?: number;
  readonly bodyBufferBytes?: number;
  readonly vault?: ReadonlyMap<string, string>;
}

/** One request through Kong, and what became of it. */
export interface Passage {
  readonly client: ClientResponse;
  /** What the upstream got; undefined where it was not called. */
  readonly upstream: UpstreamRequest | undefined;
  readonly log: readonly KongLogLine[];
  /** The names of the kit's functions that the plugin called, by phase. */
  readonly calls: (phase: "access" | "response") => readonly string[];
  readonly shared: ReadonlyMap<string, unknown>;
}

/** Answers a request as an upstream. */
export type Upstream = UpstreamResponse | ((request: UpstreamRequest) => UpstreamResponse);

/** Which worker takes a request, and which configured plugin is on its route. */
export interface PassageOptions {
  readonly worker?: number;
  /** Another worker for the response phase never happens in nginx; another connection does. */
  readonly pluginId?: string;
}

/** Kong as far as one plugin can see it. */
export interface FakeKong extends Disposable {
  readonly workers: readonly Worker[];
  /** Takes one request from the client to the upstream and back. */
  send(request: ClientRequest, upstream?: Upstream, options?: PassageOptions): Promise<Passage>;
  /** Builds the configuration anew, with or without changes. */
  reconfigure(config?: Readonly<Record<string, unknown>>, pluginId?: string): void;
}

const mainPlugin = "0c61e164-6171-4837-8836-8f5298726d53";

/** Starts Kong in front of a plugin server that listens already, or will. */
export function createFakeKong(options: FakeKongOptions): FakeKong {
  const workers: Worker[] = [];
  const plugins = new Map<string, PluginConfig>();
  const resetAll = (): void => {
    for (const worker of workers) worker.resetInstances();
  };
  for (let index = 0; index < (options.workers ?? 1); index++) {
    workers.push(
      createWorker({
        socket: options.socket,
        pluginName: options.plugin.name,
        bodyBufferBytes: options.bodyBufferBytes ?? 8192,
        vault: options.vault ?? new Map(),
        resetAll,
        ...(options.timeoutMs === undefined ? {} : { timeoutMs: options.timeoutMs }),
      }),
    );
  }

  function pluginOf(id: string): PluginConfig {
    const known = plugins.get(id) ?? { id, seq: 1, config: options.config };
    plugins.set(id, known);
    return known;
  }

  async function send(
    request: ClientRequest,
    upstream: Upstream = {},
    { worker: index = 0, pluginId = mainPlugin }: PassageOptions = {},
  ): Promise<Passage> {
    const worker = workers[index];
    if (worker === undefined) throw new Error(`there is no worker ${index}`);
    const context = createContext(request);
    const plugin = pluginOf(pluginId);
    const isBuffered = options.plugin.phases.includes("response") && !context.client.headers.has("upgrade");
    let isProxied = false;
    const answer = await ended(context, async () => {
      await worker.handleEvent(plugin, "access", context);
      runAll(options.guard?.access, context, "");
      isProxied = true;
      context.response = responseOf(typeof upstream === "function" ? upstream(context.upstream) : upstream);
      if (!isBuffered) return;
      context.phase = "response";
      await worker.handleEvent(plugin, "response", context);
    });
    const client = filtered(context, answer, options.guard);
    return {
      client,
      upstream: isProxied ? context.upstream : undefined,
      log: context.log,
      calls: (phase) => context.calls.filter((call) => call.phase === phase).map(({ name }) => name),
      shared: context.shared,
    };
  }

  return {
    workers,
    send,
    reconfigure(config, pluginId = mainPlugin) {
      const { id, seq, config: old } = pluginOf(pluginId);
      plugins.set(id, { id, seq: seq + 1, config: config ?? old });
    },
    [Symbol.dispose]: () => {
      for (const worker of workers) worker[Symbol.dispose]();
    },
  };
}

/** Runs the phases; whatever ends them, there is an answer for the client. */
async function ended(context: RequestContext, phases: () => Promise<void>): Promise<ClientResponse> {
  try {
    await phases();
  } catch (error) {
    if (error instanceof Exit) return exitAnswer(context, error);
    if (!(error instanceof LuaError)) throw error;
    context.log.push({ level: "err", text: error.message });
    const body = Buffer.from(JSON.stringify({ message: "An unexpected error occurred" }));
    return { status: 500, headers: { "content-type": ["application/json"] }, body, source: "error" };
  }
  const { status, headers, body } = context.response ?? responseOf({});
  return { status, headers: Object.fromEntries(headers), body, source: "service" };
}

/** What `exit` makes of the response that nginx has so far. */
function exitAnswer(context: RequestContext, { status, body, headers }: Exit): ClientResponse {
  const all = new Map(context.response?.headers);
  const length = String(body?.length ?? 0);
  for (const [name, values] of headers) {
    if (name === "content-length" && values[0] !== length) {
      throw new Error("the client hangs: content-length is not the length of the body");
    }
    if (name !== "transfer-encoding") all.set(name, values);
  }
  all.set("content-length", [length]);
  return { status, headers: Object.fromEntries(all), body: body ?? Buffer.alloc(0), source: "exit" };
}

/** The header filter of the guard, which runs for every answer, whoever made it. */
function filtered(context: RequestContext, answer: ClientResponse, guard: Guard | undefined): ClientResponse {
  context.phase = "header_filter";
  try {
    runAll(guard?.headerFilter, context, answer.source);
    return answer;
  } catch (error) {
    if (!(error instanceof Exit)) throw error;
    return exitAnswer({ ...context, response: undefined }, error);
  }
}

function runAll(functions: readonly GuardFunction[] | undefined, context: RequestContext, source: string): void {
  for (const run of functions ?? []) run(context, source);
}

function responseOf({
  status = 200,
  headers = {},
  body = "",
}: UpstreamResponse): NonNullable<RequestContext["response"]> {
  const bytes = Buffer.from(body);
  return {
    status,
    headers: listsOf({ "content-length": String(bytes.length), ...headers }),
    body: bytes,
  };
}
