import { randomBytes, randomUUID } from "node:crypto";

import type { McpServer, ServerOptions } from "@modelcontextprotocol/server";
import type { z } from "zod";

import type { Authenticator } from "../auth/authenticator.ts";
import { type Clock, type SetTimer, systemClock, systemTimer } from "../core/exchange.ts";
import { createLogger, type Logger } from "../telemetry/log.ts";
import type { HttpEdge, HttpEdgeDeps, KitCore, KitEnvironment, PeerDetails } from "./contract/contract.ts";
import { createCore } from "./core.ts";
import type { KitTool } from "./tools/define-tool.ts";
import type { Entity } from "./entity/entity.ts";
import {
  detectEnvironment,
  type EnvironmentVariables,
  type KitSettings,
  type KitSettingsInput,
  loadSettings,
} from "./contract/settings.ts";
import { createHttpEdge } from "./http/edge.ts";
import { refuseRequest } from "./http/refusal.ts";
import type { ExtendContext } from "./mcp/mcp-server.ts";
import { openStdio, type StdioSession, type StdioStreams } from "./mcp/stdio.ts";
import { sqliteStore } from "./stores/sqlite.ts";
import type { EntityStore } from "./stores/store.ts";
import { createTypedRecords, type TypedRecords } from "./entity/records.ts";
import { type KitListenOptions, listen, type ListeningServer } from "./adapters/node.ts";

/** How callers are known. */
export interface KitAuth {
  /** Verifies bearer tokens. */
  readonly authenticator?: Authenticator;
  /** The host's own login (KO-140). */
  readonly identify?: NonNullable<HttpEdgeDeps["identify"]>;
  /** Named in the protected-resource metadata (RFC 9728). */
  readonly authorizationServers?: readonly string[];
}

/** Everything `createServerKit` takes; only the name is needed. */
export interface ServerKitOptions {
  /** The name that clients see. */
  readonly name: string;
  readonly version?: string;
  readonly entities?: readonly Entity[];
  readonly tools?: readonly KitTool[];
  /** Where records are kept; SQLite in memory unless told, with a warning. */
  readonly store?: EntityStore;
  readonly auth?: KitAuth;
  /** Outrank the file and the environment. */
  readonly settings?: KitSettingsInput;
  /** A JSON or YAML file with settings. */
  readonly settingsFile?: string;
  /** Environment variables; those of the process unless told. */
  readonly env?: EnvironmentVariables;
  /** Gets each fresh server, to add resources, prompts and whatever else MCP has. */
  readonly extend?: (server: McpServer, context: ExtendContext) => void;
  /** More options of the SDK's server: capabilities, instructions and the like. */
  readonly serverOptions?: ServerOptions;
  /** Signs cursors; servers behind one address share it. A random one unless told. */
  readonly cursorSecret?: string | Uint8Array;
  readonly log?: Logger;
  readonly environment?: KitEnvironment;
  readonly clock?: Clock;
  readonly setTimer?: SetTimer;
}

/** A server kit: entities and tools behind every enabled transport. */
export interface ServerKit extends AsyncDisposable, Omit<HttpEdge, "warnings"> {
  /** Answers any request; 404 for paths that are not the kit's. */
  fetch(request: Request, peer?: PeerDetails): Promise<Response>;
  settings(): KitSettings;
  /** Serves the local user over stdio. */
  serveStdio(streams?: StdioStreams): StdioSession;
  /** Records for the host's own code: same schema and hooks, but no scopes and every row. */
  records<Schema extends z.ZodObject>(entity: Entity<Schema>): TypedRecords<Schema>;
  /** New settings from code for the requests to come; says what needs a restart (KO-142). */
  reload(settings: KitSettingsInput): readonly string[];
  /** What the operator should know at start-up. */
  warnings(): readonly string[];
  readonly core: KitCore;
}

/** Makes a kit, opens its store and compiles its schemas; wrong settings or declarations fail here, in words. */
export async function createServerKit(options: ServerKitOptions): Promise<ServerKit> {
  const { name, version = "0.0.0", entities = [], tools = [], auth = {} } = options;
  const variables = options.env ?? process.env;
  const environment = options.environment ?? detectEnvironment(variables);
  const toSettings = (code: KitSettingsInput | undefined): KitSettings =>
    loadSettings({ file: options.settingsFile, variables, code }, environment);
  const settings = toSettings(options.settings);
  const log = (options.log ?? createLogger({ level: "info", pretty: false })).child({ server: name });
  const clock = options.clock ?? systemClock;
  const setTimer = options.setTimer ?? systemTimer;
  const newId = (): string => randomBytes(16).toString("hex");
  const core = await createCore({
    info: { name, version },
    serverOptions: options.serverOptions ?? {},
    extend: options.extend,
    entities,
    tools,
    store: options.store ?? sqliteStore(),
    cursorSecret: options.cursorSecret ?? randomBytes(32),
    settings,
    log: log.child({ logger: settings.transport.loggerCategory }),
    clock,
    setTimer,
    newId,
    newUuid: randomUUID,
  });
  let edge: HttpEdge;
  try {
    edge = createHttpEdge({ core, environment, ...auth, log, clock, setTimer, newId });
  } catch (error) {
    await core.close();
    throw error;
  }
  const inMemory =
    options.store === undefined && entities.length > 0
      ? ["no store was given: records are kept in memory and end with the process"]
      : [];
  const warnings = (): readonly string[] => [...edge.warnings(), ...core.warnings(), ...inMemory];
  for (const warning of warnings()) log.warn({}, warning);

  const open = new Set<StdioSession>();
  let closing: Promise<void> | undefined;
  const shutdown = async (): Promise<void> => {
    closing ??= (async () => {
      await edge.shutdown();
      await Promise.all([...open].map(async (session) => session.close()));
      await core.close();
    })();
    return closing;
  };
  return {
    ...edge,
    core,
    settings: () => core.settings(),
    warnings,
    fetch: async (request, peer) => (await edge.handle(request, peer)) ?? refuseRequest("not_found"),
    serveStdio: (streams) => {
      const session = openStdio(core, log, streams);
      open.add(session);
      void session.ended.then(() => open.delete(session));
      return session;
    },
    records: (entity) => {
      const records = core.records(entity.name);
      if (records === undefined) throw new TypeError(`${entity.name} is no entity of this kit`);
      return createTypedRecords(entity, records, log);
    },
    reload: (code) => {
      const notes = core.reload(toSettings(code));
      for (const note of notes) log.warn({}, note);
      return notes;
    },
    shutdown,
    [Symbol.asyncDispose]: shutdown,
  };
}

/** A kit and where it listens. */
export interface StartServerKitOptions extends ServerKitOptions {
  readonly listen?: KitListenOptions;
  readonly stdio?: StdioStreams;
  /** Takes the boot report; standard error unless told, because standard output belongs to the protocol. */
  readonly report?: (text: string) => void;
}

/** A kit that serves what its settings switch on. */
export interface RunningServerKit extends AsyncDisposable {
  readonly kit: ServerKit;
  /** Where HTTP is served; undefined where it is off. */
  readonly url: string | undefined;
  /** Resolves when the kit has stopped: by `close`, or by the end of stdin where stdio is all there is (KO-137). */
  readonly stopped: Promise<void>;
  close(): Promise<void>;
}

/** Makes a kit and serves stdio and HTTP as its settings say: a whole server in one call. */
export async function startServerKit(options: StartServerKitOptions): Promise<RunningServerKit> {
  const kit = await createServerKit(options);
  const { enableStdioTransport, enableHttpSseTransport, enableStreamableHttp, enableRest } = kit.settings();
  const isHttpOn = enableHttpSseTransport || enableStreamableHttp || enableRest;
  const listening: ListeningServer | undefined = isHttpOn ? await listen(kit, options.listen) : undefined;
  const stdio: StdioSession | undefined = enableStdioTransport ? kit.serveStdio(options.stdio) : undefined;
  const report = options.report ?? ((text: string) => void process.stderr.write(`${text}\n`));
  report(kit.bootReport() + (listening === undefined ? "" : `\n  Address: ${listening.url}`));

  const { promise: stopped, resolve } = Promise.withResolvers<void>();
  let closing: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    closing ??= (async () => {
      await (listening === undefined ? kit.shutdown() : listening.close());
      resolve();
    })();
    return closing;
  };
  if (stdio !== undefined && listening === undefined) void stdio.ended.then(close);
  return { kit, url: listening?.url, stopped, close, [Symbol.asyncDispose]: close };
}
