import { callKit, LuaError, type KitSurroundings } from "./kit.ts";
import type { RequestContext } from "./request.ts";
import { createRpcClient, RpcFailure, type RpcClient } from "./rpc-client.ts";

/** A configured plugin, as Kong's database has it. */
export interface PluginConfig {
  readonly id: string;
  /** Another one whenever the configuration is built anew. */
  readonly seq: number;
  readonly config: Readonly<Record<string, unknown>>;
}

/** One of nginx's workers: it has its own instances and its own connections. */
export interface Worker extends Disposable {
  readonly rpc: RpcClient;
  /** Runs one phase. Throws Exit or LuaError; when the server fails, Kong only writes it to its log and goes on. */
  handleEvent(plugin: PluginConfig, phase: "access" | "response", context: RequestContext): Promise<void>;
  /** Forgets the instances, as a worker does when another one found the server restarted. */
  resetInstances(): void;
  /** The number of the instance of a plugin, if there is one. */
  readonly instanceOf: (id: string) => unknown;
}

/** What a worker shares with the others. */
export interface WorkerOptions extends KitSurroundings {
  readonly socket: string;
  readonly pluginName: string;
  readonly timeoutMs?: number;
  /** Tells all workers to forget their instances. */
  readonly resetAll: () => void;
}

interface Instance {
  readonly id: unknown;
  readonly seq: number;
}

const multiMaps = new Set([
  "kong.request.get_query",
  "kong.request.get_headers",
  "kong.response.get_headers",
  "kong.service.response.get_headers",
]);

/** Starts a worker. */
export function createWorker(options: WorkerOptions): Worker {
  const instances = new Map<string, Promise<Instance>>();
  let serverPid: unknown;
  const rpc = createRpcClient({
    socket: options.socket,
    ...(options.timeoutMs === undefined ? {} : { timeoutMs: options.timeoutMs }),
    onNotification: (label, argument) => {
      if (label !== "serverPid") return;
      if (serverPid !== undefined && serverPid !== argument) instances.clear();
      serverPid = argument;
    },
  });

  async function startInstance(plugin: PluginConfig): Promise<Instance> {
    const notes = {
      __key__: `plugins:${options.pluginName}:${plugin.id}`,
      __seq__: plugin.seq,
      __plugin_id: plugin.id,
      __ws_id: "default",
    };
    try {
      const status = await rpc.call("StartInstance", {
        Name: options.pluginName,
        Config: luaJson({ ...plugin.config, ...notes }),
      });
      return { id: memberOf(status, "Id"), seq: plugin.seq };
    } catch (error) {
      instances.delete(plugin.id);
      throw new LuaError(error instanceof Error ? error.message : String(error));
    }
  }

  async function instanceFor(plugin: PluginConfig): Promise<unknown> {
    const claim = instances.get(plugin.id);
    // Somebody may be starting one already: then everybody waits for that.
    const known = await claim;
    if (instances.get(plugin.id) !== claim) return instanceFor(plugin);
    if (known?.seq === plugin.seq) return known.id;
    const started = startInstance(plugin);
    instances.set(plugin.id, started);
    const { id } = await started;
    if (known !== undefined) await rpc.call("CloseInstance", known.id).catch(() => {});
    return id;
  }

  async function bridge(instance: unknown, phase: string, context: RequestContext): Promise<void> {
    let step = await rpc.call("HandleEvent", { InstanceId: instance, EventName: phase });
    const event = memberOf(step, "EventId");
    while (memberOf(step, "Data") !== "ret") {
      const data = memberOf(step, "Data");
      const name = String(memberOf(data, "Method"));
      const args = memberOf(data, "Args");
      const result = callKit(context, name, Array.isArray(args) ? args : [args], options);
      step = await rpc.call(multiMaps.has(name) ? "StepMultiMap" : "Step", { EventId: event, Data: result });
    }
  }

  return {
    rpc,
    async handleEvent(plugin, phase, context) {
      for (;;) {
        const id = await instanceFor(plugin);
        try {
          await bridge(id, phase, context);
          return;
        } catch (error) {
          if (!(error instanceof RpcFailure)) throw error;
          const isForgotten = error.message.toLowerCase().includes("no plugin instance");
          context.log.push({ level: isForgotten ? "warn" : "err", text: error.message });
          if (!isForgotten) return;
          options.resetAll();
        }
      }
    },
    resetInstances: () => instances.clear(),
    instanceOf: (id) => instances.get(id),
    [Symbol.dispose]: () => rpc[Symbol.dispose](),
  };
}

/** JSON as cjson writes it: an empty Lua table is an empty object, whatever it was meant to be. */
function luaJson(config: unknown): string {
  return JSON.stringify(config, (_name, value: unknown) => (Array.isArray(value) && value.length === 0 ? {} : value));
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}
