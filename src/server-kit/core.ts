import type { Implementation, McpServer, ServerNotifier, ServerOptions } from "@modelcontextprotocol/server";

import type { Clock, SetTimer } from "../core/exchange.ts";
import { GatewayError } from "../errors.ts";
import { thrownMessage } from "../lib/thrown-message.ts";
import { settlesWithin } from "../lib/timeout.ts";
import type { Logger } from "../telemetry/log.ts";
import { createCursors } from "./entity/filter.ts";
import { type Entity, type EntityModel, modelOf, transportNames } from "./entity/entity.ts";
import { kitFailure } from "./entity/failure.ts";
import {
  changedMeanwhile,
  createRecords,
  duplicate,
  maxAttempts,
  type RecordDeps,
  type Records,
  tableOf,
} from "./entity/records.ts";
import type { ConnectionContext, KitCore } from "./http/contract.ts";
import { restOpenApiPaths } from "./http/open-api.ts";
import { createRestHandler } from "./http/rest.ts";
import { createExtensionAccess } from "./mcp/extension-access.ts";
import { createKitServer, type ExtendContext, type KitMcpServer, toAuthInfo } from "./mcp/mcp-server.ts";
import { createStreamableHandler } from "./mcp/streamable-http.ts";
import type { KitSettings } from "./settings/settings.ts";
import type { EntityStore } from "./stores/store.ts";
import { createTurns } from "./entity/turns.ts";
import { beginTransaction } from "./stores/transaction.ts";
import type { KitTool } from "./tools/define-tool.ts";
import { createExecutor } from "./tools/executor.ts";
import { type CapabilityTool, createToolCatalog, type ToolCatalog } from "./tools/tool-catalog.ts";

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

/** The core, with what only the kit itself uses. */
export interface ReloadableCore extends KitCore {
  /** Replaces the settings; returns a note for each change that needs a restart and is ignored (KO-142). */
  reload(settings: KitSettings): readonly string[];
  records(entity: string): Records | undefined;
  /** Runs work whose changes are made all or none; repeats it when another writer was faster. */
  transaction<Result>(work: (records: (entity: string) => Records | undefined) => Promise<Result>): Promise<Result>;
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

/** How long a health check waits for the store. */
const storeCheckMs = 2000;

/** Creates the core: opens the store and compiles every schema once. */
export async function createCore(deps: CoreDeps): Promise<ReloadableCore> {
  const { clock, setTimer, newId, log, extend } = deps;
  const models = deps.entities.map(modelOf);
  const recordDeps = {
    store: withStoreFailures(deps.store),
    cursors: createCursors(deps.cursorSecret),
    clock,
    newUuid: deps.newUuid,
    turns: createTurns(),
  };
  const records = models.map((model) => createRecords(model, recordDeps));
  let catalog: ToolCatalog = createToolCatalog(records, deps.tools, deps.settings);
  const currentCatalog = (): ToolCatalog => catalog;
  const settings = (): KitSettings => catalog.settings;
  await deps.store.open(models.map(tableOf));

  const executor = createExecutor(currentCatalog, clock, newId);
  const extensionAccess = createExtensionAccess(() => extend !== undefined && settings().requireAuthentication);
  const serverDeps = {
    info: deps.info,
    options: deps.serverOptions,
    extend,
    catalog: currentCatalog,
    executor,
    extensionAccess,
    newId,
    notify: (): ServerNotifier => streamable.notify,
  };
  const createServer = (connection: ConnectionContext): KitMcpServer => createKitServer(serverDeps, connection);
  const streamable = createStreamableHandler({
    settings,
    executor,
    extensionAccess,
    createServer,
    log,
    clock,
    setTimer,
    newId,
  });
  const extensionTools = extend === undefined ? [] : await tryExtend(createServer, log);

  let checking: Promise<void> | undefined;
  /** One check at a time: probes of a store that hangs must not take all its connections. */
  const checkStore = async (): Promise<void> => {
    checking ??= deps.store.check().finally(() => {
      checking = undefined;
    });
    return checking;
  };

  return {
    settings,
    allowsAnonymous: () => catalog.allowsAnonymous() || extensionAccess.opensAny,
    capabilityTools: (principal) => [
      ...catalog.capabilityTools(principal),
      ...extensionTools
        .map((tool) => ({ ...tool, requireAuthentication: !extensionAccess.isOpenTool(tool.name) }))
        .filter(({ requireAuthentication }) => principal.kind !== "anonymous" || !requireAuthentication),
    ],
    createServer,
    toAuthInfo,
    streamable: async (request, caller, admit) => streamable.handle(request, caller, admit),
    rest: createRestHandler(currentCatalog, executor),
    onCall: (listener) => executor.onCall(listener),
    storeHealth: async () => {
      try {
        // A probe that hangs with the store says nothing.
        if (await settlesWithin(checkStore(), storeCheckMs, setTimer)) return { ok: true };
        return { ok: false, reason: `no answer in ${storeCheckMs} ms` };
      } catch (error) {
        return { ok: false, reason: thrownMessage(error) };
      }
    },
    streamableSessions: () => streamable.sessionCounts(),
    counts: () => ({ entities: catalog.entities.length, tools: catalog.tools.size }),
    openApi: () => restOpenApiPaths(catalog),
    drain: async (timeoutMs) => settlesWithin(executor.idle(), timeoutMs, setTimer),
    close: async () => {
      await streamable.close();
      await deps.store.close();
    },
    reload: (next) => {
      const before = catalog.settings;
      const ignored = restartOnlySettings.filter((name) => before[name] !== next[name]);
      const kept = Object.fromEntries(restartOnlySettings.map((name) => [name, before[name]]));
      catalog = createToolCatalog(records, deps.tools, { ...next, ...kept });
      streamable.notify.toolsChanged();
      return ignored.map((name) => `${name} changed; restart to apply it`);
    },
    records: (name) => records.find(({ entity }) => entity.name === name),
    transaction: async (work) => runTransaction(models, recordDeps, work),
    warnings: () => [...catalog.warnings, ...lenientScopeWarnings(catalog)],
  };
}

/** A name that no entity has: transactions wait for each other, whatever they change. */
const transactionTurn = "";

async function runTransaction<Result>(
  models: readonly EntityModel[],
  deps: RecordDeps,
  work: (records: (entity: string) => Records | undefined) => Promise<Result>,
): Promise<Result> {
  const first = await tryTransaction(models, deps, work);
  if (first.ok) return first.result;
  return deps.turns(transactionTurn, async () => {
    let { entity } = first;
    for (let attempt = 2; attempt <= maxAttempts; attempt++) {
      const repeated = await tryTransaction(models, deps, work);
      if (repeated.ok) return repeated.result;
      entity = repeated.entity;
    }
    throw changedMeanwhile(entity);
  });
}

type TransactionEnd<Result> =
  | { readonly ok: true; readonly result: Result }
  /** Another writer was faster with a record of this entity. */
  | { readonly ok: false; readonly entity: EntityModel };

async function tryTransaction<Result>(
  models: readonly EntityModel[],
  deps: RecordDeps,
  work: (records: (entity: string) => Records | undefined) => Promise<Result>,
): Promise<TransactionEnd<Result>> {
  const transaction = beginTransaction(deps.store);
  const later: (() => Promise<void>)[] = [];
  const afterCommit = async (run: () => Promise<void>): Promise<void> => {
    later.push(run);
  };
  const scoped = models.map((model) => createRecords(model, { ...deps, store: transaction.store, afterCommit }));
  let result: Result;
  try {
    result = await work((name) => scoped.find(({ entity }) => entity.name === name));
  } catch (error) {
    transaction.end();
    throw error;
  }
  const applied = await transaction.commit();
  if (applied.ok) {
    for (const run of later) await run();
    return { ok: true, result };
  }
  const entity = models.find(({ name }) => name === applied.entity);
  if (entity === undefined) throw new TypeError(`${applied.entity} is not an entity of this kit`);
  if (applied.problem === "duplicate") throw duplicate(entity);
  return { ok: false, entity };
}

/**
 * Runs the `extend` hook at start-up, so that a failing hook does not wait for the first client, and returns the tools
 * that it registers, for the capability document (KO-117).
 */
async function tryExtend(
  createServer: (connection: ConnectionContext) => KitMcpServer,
  log: Logger,
): Promise<readonly Omit<CapabilityTool, "requireAuthentication">[]> {
  const found = new Map<string, Omit<CapabilityTool, "requireAuthentication">>();
  try {
    for (const via of transportNames) {
      const server = createServer({ via, sessionId: undefined, log, era: "legacy" });
      for (const { name, description = "" } of await server.extensionTools()) {
        const enabledTransports = [...(found.get(name)?.enabledTransports ?? []), via];
        found.set(name, { name, description, requiredScopes: [], enabledTransports, entity: null, operation: null });
      }
    }
  } catch (error) {
    const text = `the extend hook of createServerKit failed: ${thrownMessage(error)}`;
    throw new GatewayError("config_invalid", text, { cause: error });
  }
  return [...found.values()];
}

/** Warns that scopes do not apply to anonymous callers in development (KO-139). */
function lenientScopeWarnings({ settings, tools }: ToolCatalog): readonly string[] {
  const isLenient = !settings.deployed && !settings.requireAuthentication;
  const scoped = [...tools.values()].filter(
    ({ access }) => access.requiredScopes.length > 0 && !access.requireAuthentication,
  );
  if (!isLenient || scoped.length === 0) return [];
  return [
    `${scoped.length} tools require scopes, but anonymous callers may call them in ${settings.environmentName}; ` +
      "set requireAuthentication to true to enforce them",
  ];
}

/** Turns errors of the store into failures for the caller; the reason only goes to the log. */
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
