import type { Implementation, McpServer, ServerNotifier, ServerOptions } from "@modelcontextprotocol/server";

import { GatewayError } from "../errors.ts";
import type { Clock, SetTimer } from "../core/exchange.ts";
import type { Logger } from "../telemetry/log.ts";
import { createKitServer, type ExtendContext, toAuthInfo } from "./mcp/mcp-server.ts";
import { createToolCatalog, type ToolCatalog } from "./tools/tool-catalog.ts";
import type { ConnectionContext, KitCore } from "./contract/contract.ts";
import { createCursors } from "./entity/cursor.ts";
import type { KitTool } from "./tools/define-tool.ts";
import type { Entity } from "./entity/entity.ts";
import { createExecutor } from "./tools/executor.ts";
import { kitFailure } from "./contract/failure.ts";
import { restOpenApiPaths } from "./http/open-api.ts";
import { createRecords, type Records, tableOf } from "./entity/records.ts";
import { createRestHandler } from "./http/rest.ts";
import type { KitSettings } from "./contract/settings.ts";
import type { EntityStore } from "./stores/store.ts";
import { createStreamableHandler, createStreamableSessions } from "./mcp/streamable-http.ts";

/** What a core is made from. */
export interface CoreDeps {
  readonly info: Implementation;
  readonly serverOptions: ServerOptions;
  readonly extend: ((server: McpServer, context: ExtendContext) => void) | undefined;
  readonly entities: readonly Entity[];
  readonly tools: readonly KitTool[];
  readonly store: EntityStore;
  readonly cursorSecret: string | Uint8Array;
  readonly settings: KitSettings;
  readonly log: Logger;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly newId: () => string;
  readonly newUuid: () => string;
}

/** The core with what only create.ts needs of it. */
export interface ReloadableCore extends KitCore {
  /** Replaces the settings; says which changes need a restart and are left as they were (KO-142). */
  reload(settings: KitSettings): readonly string[];
  records(entity: string): Records | undefined;
  warnings(): readonly string[];
}

const restartOnlySettings = [
  "enableStdioTransport",
  "enableHttpSseTransport",
  "enableStreamableHttp",
  "enableRest",
  "httpSseRoute",
  "restRoute",
] as const satisfies readonly (keyof KitSettings)[];

/** Puts the core together; the store is opened and every schema compiled, once. */
export async function createCore(parts: CoreDeps): Promise<ReloadableCore> {
  const { clock, setTimer, newId, log } = parts;
  const store = withStoreFailures(parts.store);
  const shared = { store, cursors: createCursors(parts.cursorSecret), clock, newUuid: parts.newUuid };
  const records = parts.entities.map((entity) => createRecords(entity, shared));
  let catalogue: ToolCatalog = createToolCatalog(records, parts.tools, parts.settings);
  const current = (): ToolCatalog => catalogue;
  const settings = (): KitSettings => catalogue.settings;
  await parts.store.open(parts.entities.map(tableOf));

  const executor = createExecutor(current, clock, newId);
  const { info, serverOptions: options, extend } = parts;
  const notify = (): ServerNotifier => streamable.notify;
  const serverParts = { info, options, extend, catalog: current, executor, newId, notify };
  const createServer = (connection: ConnectionContext): McpServer => createKitServer(serverParts, connection);
  const sessions = createStreamableSessions({
    settings,
    clock,
    setTimer,
    newId,
    createServer: (sessionId, sessionLog) =>
      createServer({ via: "streamable-http", sessionId, log: sessionLog, era: "legacy" }),
  });
  const streamable = createStreamableHandler({
    settings,
    executor,
    sessions,
    createServer: () => createServer({ via: "streamable-http", sessionId: undefined, log, era: "modern" }),
    onError: (error) => log.debug({ reason: error.message }, "streamable request refused"),
  });
  const rest = createRestHandler(current, executor);
  if (extend !== undefined) tryHook();

  return {
    settings,
    allowsAnonymous: () => catalogue.allowsAnonymous(),
    authorize: (caller, tool) => executor.authorize(tool, caller),
    capabilityTools: (principal) => catalogue.capabilityTools(principal),
    createServer,
    toAuthInfo,
    streamable: async (request, caller) => streamable.handle(request, caller),
    rest,
    onCall: (listener) => executor.onCall(listener),
    storeHealth: async () => {
      try {
        await parts.store.check();
        return { ok: true };
      } catch (error) {
        return { ok: false, reason: error instanceof Error ? error.message : String(error) };
      }
    },
    streamableSessions: () => sessions.size,
    counts: () => ({ entities: catalogue.entities.length, tools: catalogue.tools.size }),
    openApi: () => restOpenApiPaths(catalogue),
    drain: async (timeoutMs) => {
      let stop: (() => void) | undefined;
      const tooLong = new Promise<boolean>((resolve) => {
        stop = setTimer(timeoutMs, () => resolve(false));
      });
      const drained = await Promise.race([executor.idle().then(() => true), tooLong]);
      stop?.();
      return drained;
    },
    close: async () => {
      await streamable.close();
      await parts.store.close();
    },
    reload: (next) => {
      const before = catalogue.settings;
      const fixed = restartOnlySettings.filter((name) => before[name] !== next[name]);
      const kept = Object.fromEntries(restartOnlySettings.map((name) => [name, before[name]]));
      catalogue = createToolCatalog(records, parts.tools, { ...next, ...kept });
      streamable.notify.toolsChanged();
      return fixed.map((name) => `${name} changed; that needs a restart and stays as it was`);
    },
    records: (name) => records.find(({ entity }) => entity.name === name),
    warnings: () => [...catalogue.warnings, ...lenientScopeWarnings(catalogue)],
  };

  /** A hook that fails, as by a tool that the catalogue has already, fails at start-up and not at the first client. */
  function tryHook(): void {
    try {
      createServer({ via: "streamable-http", sessionId: undefined, log, era: "legacy" });
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      throw new GatewayError("config_invalid", `the hook extend of createServerKit fails: ${reason}`, {
        cause: error,
      });
    }
  }
}

/** Says at start-up that scopes bind nobody who does not log in (KO-139). */
function lenientScopeWarnings({ settings, tools }: ToolCatalog): readonly string[] {
  const isLenient = !settings.deployed && !settings.requireAuthentication;
  const scoped = [...tools.values()].filter(
    ({ access }) => access.requiredScopes.length > 0 && !access.requireAuthentication,
  );
  if (!isLenient || scoped.length === 0) return [];
  return [
    `${scoped.length} tools need scopes, but anonymous callers pass them in ${settings.environmentName}; ` +
      "set requireAuthentication to true to try the rules",
  ];
}

/** A store whose faults are failures in words for the caller; the reason goes to the log only. */
function withStoreFailures(store: EntityStore): EntityStore {
  const guard =
    <Given extends readonly unknown[], Result>(call: (...given: Given) => Promise<Result>) =>
    async (...given: Given): Promise<Result> => {
      try {
        return await call(...given);
      } catch (error) {
        throw kitFailure("store_failed", "the store did not answer; try again later", { cause: error });
      }
    };
  return {
    open: async (tables) => store.open(tables),
    list: guard(async (table, query) => store.list(table, query)),
    count: guard(async (table, where) => store.count(table, where)),
    apply: guard(async (changes) => store.apply(changes)),
    check: async () => store.check(),
    close: async () => store.close(),
  };
}
