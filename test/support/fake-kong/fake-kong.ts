import type { Guard } from "./guard.ts";
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
import { behaviourOf, type KongVersion, schemaProblem } from "./version.ts";
import { createWorker, type PluginConfig, type Worker } from "./worker.ts";

/** What the query command told of the plugin. */
export interface PluginFacts {
  readonly name: string;
  readonly phases: readonly string[];
  /** The schema as it was printed; Kong does not start with one that it does not understand. */
  readonly Schema?: unknown;
}

/** Another plugin on the route: its answer in the access phase, or nothing where it lets the request go on. */
export type OtherPlugin = () => UpstreamResponse | undefined;

/** How Kong is set up. */
export interface FakeKongOptions {
  readonly socket: string;
  readonly plugin: PluginFacts;
  readonly config: Readonly<Record<string, unknown>>;
  readonly workers?: number;
  readonly guard?: Guard;
  /** The latest unless given. */
  readonly version?: KongVersion;
  /** Whether Kong started the plugin server itself, as it does unless something else is configured. */
  readonly startedByKong?: boolean;
  /** A plugin with a higher priority, such as one that checks tokens. */
  readonly before?: OtherPlugin;
  /** A plugin with a lower priority, such as a cache. */
  readonly after?: OtherPlugin;
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
  const version = options.version ?? "3.9";
  const behaviour = behaviourOf(version);
  const problem = options.plugin.Schema === undefined ? undefined : schemaProblem(version, options.plugin);
  if (problem !== undefined) throw new Error(`Kong ${version} does not start: ${problem}`);
  const isCalled = options.startedByKong !== false || !behaviour.skipsForeignServers;
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
        behaviour,
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
    const isUpgrade = context.client.headers.get("upgrade")?.[0]?.toLowerCase() === "websocket";
    const isBuffered =
      options.plugin.phases.includes("response") &&
      !isUpgrade &&
      (behaviour.buffersHttp2 || context.client.httpVersion < 2);
    let isProxied = false;
    const answer = await ended(context, async () => {
      answerOf(options.before);
      if (isCalled) await worker.handleEvent(plugin, "access", context);
      else context.log.push({ level: "warn", text: "plugin server is not ready" });
      answerOf(options.after);
      const refused = options.guard?.run("access", context);
      if (refused !== undefined) throw new Exit(refused.status, refused.body, json);
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
    // What the upstream sent is in nginx already, and stays there.
    const headers = Object.fromEntries([...(context.response?.headers ?? []), ...json]);
    return { status: 500, headers: { ...headers, "content-length": [String(body.length)] }, body, source: "error" };
  }
  const { status, headers, body } = context.response ?? responseOf({});
  return { status, headers: Object.fromEntries(headers), body, source: "service" };
}

/** What `exit` makes of the response that nginx has so far. */
function exitAnswer(context: RequestContext, { status, body, headers }: Exit): ClientResponse {
  const all = new Map(context.response?.headers);
  const length = String(body?.length ?? 0);
  for (const [name, values] of headers) {
    // An answer to HEAD has no body, whatever its length is said to be.
    if (name === "content-length" && values[0] !== length && context.client.method !== "HEAD") {
      throw new Error("the client hangs: content-length is not the length of the body");
    }
    // nginx has one place for it: of several values the last one stays.
    const kept = name === "www-authenticate" ? values.slice(-1) : values;
    if (name !== "transfer-encoding") all.set(name, kept);
  }
  if (!headers.has("content-length")) all.set("content-length", [length]);
  return { status, headers: Object.fromEntries(all), body: body ?? Buffer.alloc(0), source: "exit" };
}

const json: Map<string, readonly string[]> = new Map([["content-type", ["application/json"]]]);

/** Lets another plugin answer the client. */
function answerOf(plugin: OtherPlugin | undefined): void {
  const answer = plugin?.();
  if (answer === undefined) return;
  const { status = 200, headers = {}, body } = answer;
  throw new Exit(status, body === undefined ? undefined : Buffer.from(body), listsOf(headers));
}

/**
 * The header filter of the guard, which runs for every answer. An exit replaces status and body; the
 * headers that nginx has already stay, unless they were cleared.
 */
function filtered(context: RequestContext, answer: ClientResponse, guard: Guard | undefined): ClientResponse {
  context.phase = "header_filter";
  const exit = guard?.run("header_filter", context, answer);
  if (exit === undefined) return answer;
  const kept = Object.entries(answer.headers).filter(([name]) => !exit.cleared.has(name));
  const own = [...json, ["content-length", [String(exit.body.length)]] as const];
  return { status: exit.status, headers: Object.fromEntries([...kept, ...own]), body: exit.body, source: "exit" };
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
