import { McpServer, type AuthInfo } from "@modelcontextprotocol/server";
import { z } from "zod";

import type { Authenticator } from "../../src/auth/authenticator.ts";
import type { Clock, Principal, SetTimer } from "../../src/core/exchange.ts";
import type { CallEvent } from "../../src/server-kit/tools/executor.ts";
import type { KitCaller } from "../../src/server-kit/tools/tool-entry.ts";
import type { CapabilityTool } from "../../src/server-kit/tools/tool-catalog.ts";
import type { HttpEdgeDeps, HttpEdge, KitCore } from "../../src/server-kit/http/contract.ts";
import { createHttpEdge } from "../../src/server-kit/http/edge.ts";
import { parseSettings, type KitSettings, type KitSettingsInput } from "../../src/server-kit/settings/settings.ts";
import type { LogFields, Logger } from "../../src/telemetry/log.ts";
import { createFakeTime, type FakeTime } from "./fake-time.ts";

/** A core with four tools and no entities: enough for the edge to have something behind it. */
export interface FakeCore extends KitCore {
  /** Replaces the settings, as a reload does. */
  reload(changes: KitSettingsInput): void;
  /** Lets one waiting `Fake_Wait` call finish. */
  release(): void;
  /** Calls of `Fake_Wait` that wait now. */
  readonly waiting: () => number;
  /** Calls of `Fake_Wait` whose signal fired. */
  readonly aborted: () => number;
  /** Callers of the tools that ran, in order. */
  readonly callers: readonly KitCaller[];
  store: { ok: boolean; reason?: string };
}

const secretScope = "fake:secret";

/** Makes such a core. */
function createFakeCore(input: KitSettingsInput, deployed = false): FakeCore {
  const environment = { deployed, name: deployed ? "production" : "development" };
  let given: KitSettingsInput = { enableHttpSseTransport: true, ...input };
  let settings: KitSettings = parseSettings(given, environment);
  const listeners = new Set<(facts: CallEvent) => void>();
  const callers: KitCaller[] = [];
  const gates: (() => void)[] = [];
  let waiting = 0;
  let aborted = 0;

  const mayCallSecret = ({ scopes }: Principal): boolean => scopes.has(secretScope);
  const callerOf = (authInfo: AuthInfo | undefined): KitCaller => authInfo?.extra?.["caller"] as KitCaller;

  function note(tool: string, caller: KitCaller): void {
    callers.push(caller);
    for (const listener of listeners) listener({ tool, via: caller.via, outcome: "ok", durationMs: 1 });
  }

  async function wait(signal: AbortSignal): Promise<void> {
    waiting += 1;
    const { promise, resolve } = Promise.withResolvers<void>();
    gates.push(resolve);
    signal.addEventListener("abort", () => {
      aborted += 1;
      resolve();
    });
    await promise;
    waiting -= 1;
  }

  function createServer(): McpServer {
    const server = new McpServer({ name: "fake", version: "1.0.0" }, { capabilities: { tools: {}, logging: {} } });
    const text = (value: string) => ({ content: [{ type: "text" as const, text: value }] });
    server.registerTool("Fake_Echo", { inputSchema: z.object({ text: z.string() }) }, (args, ctx) => {
      note("Fake_Echo", callerOf(ctx.http?.authInfo));
      return text(args.text);
    });
    server.registerTool("Fake_Wait", {}, async (ctx) => {
      note("Fake_Wait", callerOf(ctx.http?.authInfo));
      await ctx.mcpReq.notify({
        method: "notifications/message",
        params: { level: "info", data: "waiting" },
      });
      await wait(ctx.mcpReq.signal);
      return text("done");
    });
    server.registerTool("Fake_Big", { inputSchema: z.object({ bytes: z.int() }) }, ({ bytes }) =>
      text("x".repeat(bytes)),
    );
    server.registerTool("Fake_Secret", {}, (ctx) => {
      const caller = callerOf(ctx.http?.authInfo);
      return mayCallSecret(caller.principal) ? text("secret") : { ...text("refused"), isError: true };
    });
    return server;
  }

  const tool = (name: string, requiredScopes: readonly string[] = []): CapabilityTool => ({
    name,
    description: name,
    requireAuthentication: requiredScopes.length > 0,
    requiredScopes,
    enabledTransports: ["http-sse", "streamable-http"],
    entity: null,
    operation: null,
  });

  return {
    settings: () => settings,
    allowsAnonymous: () => false,
    capabilityTools: (principal) => [
      ...["Fake_Echo", "Fake_Wait", "Fake_Big"].map((name) => tool(name)),
      ...(mayCallSecret(principal) ? [tool("Fake_Secret", [secretScope])] : []),
    ],
    createServer,
    toAuthInfo: (caller) => ({ token: "", clientId: caller.principal.id, scopes: [], extra: { caller } }),
    streamable: async (request) => Response.json({ streamable: request.method }),
    rest: async (request, caller, path) => {
      if (path === "/broken") throw new Error("the secret password is hunter2");
      return Response.json({ rest: path, method: request.method, caller: caller.principal.id });
    },
    onCall: (listener) => {
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
      };
    },
    storeHealth() {
      return Promise.resolve(this.store);
    },
    streamableSessions: () => ({ open: 0, inUse: 0, resumeBytes: 0 }),
    counts: () => ({ entities: 0, tools: 4 }),
    openApi: () => ({ "/api/Fake": {} }),
    drain: async () => true,
    close: async () => {},
    reload: (changes) => {
      given = { ...given, ...changes };
      settings = parseSettings(given, environment);
    },
    release: () => gates.shift()?.(),
    waiting: () => waiting,
    aborted: () => aborted,
    callers,
    store: { ok: true },
  };
}

/** A log that remembers its lines. */
export interface RememberingLog extends Logger {
  readonly lines: {
    readonly level: string;
    readonly fields: LogFields;
    readonly message: string | undefined;
  }[];
}

/** Makes a log that writes nothing and forgets nothing. */
export function createRememberingLog(): RememberingLog {
  const lines: RememberingLog["lines"] = [];
  const at = (given: LogFields): Logger => {
    const write = (level: string) => (fields: LogFields, message?: string) => {
      lines.push({ level, fields: { ...given, ...fields }, message });
    };
    return {
      trace: write("trace"),
      debug: write("debug"),
      info: write("info"),
      warn: write("warn"),
      error: write("error"),
      fatal: write("fatal"),
      isLevelEnabled: () => true,
      child: (fields) => at({ ...given, ...fields }),
    };
  };
  return { ...at({}), lines };
}

/** Tokens are `<name>` or `<name>:<scope>`; `expired` and everything that is not listed is refused. */
export function createFakeAuthenticator(names: readonly string[], expiresAt?: () => number): Authenticator {
  return {
    authenticate: ({ header }) => {
      const value = header("authorization");
      if (value === undefined) return { ok: false, failure: { error: "missing", description: "none" } };
      const [name = "", scope] = value.replace(/^Bearer /u, "").split("/");
      if (name === "down") return { ok: false, failure: { error: "unavailable", description: "down" } };
      if (name === "broken") throw new Error("the verifier broke");
      if (!names.includes(name)) {
        return { ok: false, failure: { error: "invalid_token", description: 'not a "good" token' } };
      }
      const principal: Principal = {
        id: name,
        kind: "token",
        scopes: new Set(scope === undefined ? [] : [scope]),
        claims: {},
        ...(expiresAt === undefined ? {} : { expiresAt: expiresAt() }),
      };
      return { ok: true, principal };
    },
  };
}

/** An edge over a fake core, in fake time unless told otherwise. */
export interface FakeKit {
  readonly core: FakeCore;
  readonly edge: HttpEdge;
  readonly log: RememberingLog;
  readonly time: FakeTime;
}

/** What a test may change of such an edge. */
export interface FakeKitOptions extends Partial<Omit<HttpEdgeDeps, "core" | "log">> {
  readonly settings?: KitSettingsInput;
  readonly deployed?: boolean;
}

/** Makes an edge whose ids are counted and padded to their full length. */
export function createFakeKit({ settings = {}, deployed = false, ...options }: FakeKitOptions = {}): FakeKit {
  const core = createFakeCore(settings, deployed);
  const time = createFakeTime();
  const log = createRememberingLog();
  let ids = 0;
  const given: { readonly clock: Clock; readonly setTimer: SetTimer } = time;
  const edge = createHttpEdge({
    core,
    environment: { deployed, name: deployed ? "production" : "development" },
    log,
    clock: given.clock,
    setTimer: given.setTimer,
    newId: () => (++ids).toString(16).padStart(32, "0"),
    ...options,
  });
  return { core, edge, log, time };
}
