import { randomBytes, randomUUID } from "node:crypto";

import type { McpServer, ServerOptions } from "@modelcontextprotocol/server";
import type { z } from "zod";

import type { Authenticator } from "../auth/authenticator.ts";
import { type Clock, type SetTimer, systemClock, systemTimer } from "../core/exchange.ts";
import { keepAliveDuring } from "../lib/clock.ts";
import { GatewayError } from "../errors.ts";
import { type OptionForms, optionProblem } from "../lib/option-problem.ts";
import { createLogger, type Logger } from "../telemetry/log.ts";
import { type KitListenOptions, listen } from "./adapters/node.ts";
import { createCore, type ReloadableCore } from "./core.ts";
import type { Entity } from "./entity/entity.ts";
import type { Records } from "./entity/records.ts";
import { createTypedRecords, type TypedRecords } from "./entity/typed-records.ts";
import type { HttpEdge, IdentifyRequest, PeerDetails } from "./http/contract.ts";
import { createHttpEdge } from "./http/edge.ts";
import { httpRefusal } from "./http/refusal.ts";
import { type ExtendContext, openStdio, type StdioSession, type StdioStreams } from "./mcp/mcp-server.ts";
import {
  detectEnvironment,
  type EnvironmentVariables,
  type KitEnvironment,
  type KitSettings,
  type KitSettingsInput,
  loadSettings,
} from "./settings/settings.ts";
import { sqliteStore } from "./stores/sqlite.ts";
import type { EntityStore } from "./stores/store.ts";
import type { KitTool } from "./tools/define-tool.ts";

/** How callers are authenticated. */
export interface KitAuth {
  /** Verifies bearer tokens. */
  readonly authenticator?: Authenticator;
  /** Uses the host's own login (KO-140). */
  readonly identify?: IdentifyRequest;
  /** Authorization servers named in the protected-resource metadata (RFC 9728). */
  readonly authorizationServers?: readonly string[];
}

/** The options of `createServerKit`. */
export interface ServerKitOptions {
  /** The server's name, as clients see it. */
  readonly name: string;
  readonly version?: string;
  readonly entities?: readonly Entity[];
  readonly tools?: readonly KitTool[];
  /** Where records are stored. Default: SQLite in memory, with a warning. */
  readonly store?: EntityStore;
  readonly auth?: KitAuth;
  /** Override the settings file and the environment variables. */
  readonly settings?: KitSettingsInput;
  /** A JSON or YAML file with settings. */
  readonly settingsFile?: string;
  /** Default: `process.env`. */
  readonly env?: EnvironmentVariables;
  /** Gets each new server of the official SDK, to register resources, prompts and anything else. */
  readonly extend?: (server: McpServer, context: ExtendContext) => void;
  /** More options of the SDK's server, such as capabilities and instructions. */
  readonly serverOptions?: ServerOptions;
  /** Signs list cursors; servers behind one address must share it. Default: random. */
  readonly cursorSecret?: string | Uint8Array;
  readonly log?: Logger;
  /** Default: `detectEnvironment(env)`. */
  readonly environment?: KitEnvironment;
}

/** The records of an entity, for the host's own code. */
export type RecordsOf = <Schema extends z.ZodObject>(entity: Entity<Schema>) => TypedRecords<Schema>;

/** Entities and tools, served on every enabled transport. */
export interface ServerKit extends HttpEdge, AsyncDisposable {
  /** Answers any request; 404 for a path that is not the kit's. */
  fetch(request: Request, peer?: PeerDetails): Promise<Response>;
  settings(): KitSettings;
  /** Serves the local user over stdio. */
  serveStdio(streams?: StdioStreams): StdioSession;
  /** Records for the host's own code: the same schema and hooks, without access rules. */
  readonly records: RecordsOf;
  /**
   * Makes all changes of `work` or none. If another writer was faster, `work` runs again, so it must do nothing else.
   * Rows that it only reads are not locked.
   *
   * @example
   * await kit.transaction(async (records) => {
   *   const { left } = await records(Stock).get(id);
   *   if (left === 0) throw kitFailure("conflict", "sold out");
   *   await records(Stock).update(id, { left: left - 1 });
   *   await records(Order).create({ item: id });
   * });
   */
  transaction<Result>(work: (records: RecordsOf) => Promise<Result>): Promise<Result>;
  /** Applies new settings to later requests; returns a note for each change that needs a restart (KO-142). */
  reload(settings: KitSettingsInput): readonly string[];
}

/**
 * Creates a kit: opens its store and compiles its schemas. Rejects invalid settings and declarations.
 *
 * @example
 * const kit = await createServerKit({
 *   name: "notes",
 *   entities: [Note],
 *   settings: { enableHttpSseTransport: true },
 * });
 * app.use(toExpress(kit));
 */
export async function createServerKit(options: ServerKitOptions): Promise<ServerKit> {
  checkOptions(options, kitForms);
  return (await assembleKit(options)).kit;
}

/** Without a type checker, a misspelt `auth` would leave the server open. */
function checkOptions(options: ServerKitOptions, forms: OptionForms<ServerKitOptions>): void {
  const problem = optionProblem(options, forms) ?? authProblem(options.auth);
  if (problem !== undefined) throw new GatewayError("config_invalid", `server kit: ${problem}`);
  if (!options.name) throw new GatewayError("config_invalid", "server kit: option name is missing; clients see it");
}

function authProblem(auth: unknown): string | undefined {
  const problem = auth === undefined ? undefined : optionProblem(auth, authForms);
  return problem === undefined ? undefined : `auth: ${problem}`;
}

const authForms: OptionForms<KitAuth> = {
  authenticator: "object",
  identify: "function",
  authorizationServers: "string[]",
};

const kitForms: OptionForms<ServerKitOptions> = {
  name: "string",
  version: "string",
  entities: "list",
  tools: "list",
  store: "object",
  auth: "object",
  settings: "object",
  settingsFile: "string",
  env: "object",
  extend: "function",
  serverOptions: "object",
  cursorSecret: "any",
  log: "object",
  environment: "object",
};

const startForms: OptionForms<StartServerKitOptions> = {
  ...kitForms,
  listen: "object",
  stdio: "object",
  handleSignals: "boolean",
  report: "function",
};

/** What tests replace. */
export interface KitDeps {
  readonly clock?: Clock;
  readonly setTimer?: SetTimer;
}

/** Creates a kit and gives access to its core. */
export async function assembleKit(
  options: ServerKitOptions,
  { clock = systemClock, setTimer = systemTimer }: KitDeps = {},
): Promise<{ readonly kit: ServerKit; readonly core: ReloadableCore }> {
  const { name, version = "0.0.0", entities = [], tools = [], auth = {} } = options;
  const variables = options.env ?? process.env;
  const environment = options.environment ?? detectEnvironment(variables);
  const toSettings = (code: KitSettingsInput | undefined): KitSettings =>
    loadSettings({ file: options.settingsFile, variables, code }, environment);
  const settings = toSettings(options.settings);
  const log = (options.log ?? createLogger({ level: "info", pretty: false })).child({ server: name });
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
      ? ["no store configured: records are kept in memory and lost when the process ends"]
      : [];
  const warnings = (): readonly string[] => [...edge.warnings(), ...core.warnings(), ...inMemory];
  for (const warning of warnings()) log.warn({}, warning);

  const stdioSessions = new Set<StdioSession>();
  let closing: Promise<void> | undefined;
  const shutdown = async (): Promise<void> => {
    closing ??= keepAliveDuring(async () => {
      await edge.shutdown();
      await Promise.all([...stdioSessions].map(async (session) => session.close()));
      await core.close();
    });
    return closing;
  };
  const kit: ServerKit = {
    ...edge,
    settings: () => core.settings(),
    warnings,
    fetch: async (request, peer) => (await edge.handle(request, peer)) ?? httpRefusal("not_found"),
    serveStdio: (streams) => {
      const session = openStdio(core, log, streams);
      stdioSessions.add(session);
      void session.ended.then(() => stdioSessions.delete(session));
      return session;
    },
    records: typedRecords((entity) => core.records(entity), log),
    transaction: async (work) => core.transaction(async (records) => work(typedRecords(records, log))),
    reload: (code) => {
      const notes = core.reload(toSettings(code));
      for (const note of notes) log.warn({}, note);
      return notes;
    },
    shutdown,
    [Symbol.asyncDispose]: shutdown,
  };
  return { kit, core };
}

function typedRecords(find: (entity: string) => Records | undefined, log: Logger): RecordsOf {
  return (entity) => {
    const records = find(entity.name);
    if (records === undefined) throw new TypeError(`${entity.name} is not an entity of this kit`);
    return createTypedRecords(entity, records, log);
  };
}

/** The options of `startServerKit`. */
export interface StartServerKitOptions extends ServerKitOptions {
  readonly listen?: KitListenOptions;
  readonly stdio?: StdioStreams;
  /**
   * Whether SIGTERM and SIGINT let running calls finish, end the streams and then the process (KO-080); a second signal
   * ends it at once. Default: true.
   */
  readonly handleSignals?: boolean;
  /** Gets the boot report. Default: standard error, because standard output belongs to the protocol. */
  readonly report?: (text: string) => void;
}

/** A kit that serves every enabled transport. */
export interface RunningServerKit extends AsyncDisposable {
  readonly kit: ServerKit;
  /** The base URL; undefined if HTTP is disabled. */
  readonly url: string | undefined;
  /** Resolves after `close`, or when stdin ends and stdio is the only transport (KO-137). */
  readonly stopped: Promise<void>;
  close(): Promise<void>;
}

/**
 * Creates a kit and serves stdio and HTTP as its settings say.
 *
 * @example
 * const { url } = await startServerKit({
 *   name: "notes",
 *   entities: [Note],
 *   settings: { enableHttpSseTransport: true },
 *   listen: { port: 5110 },
 * });
 */
export async function startServerKit(options: StartServerKitOptions): Promise<RunningServerKit> {
  checkOptions(options, startForms);
  const { kit } = await assembleKit(options);
  const { enableStdioTransport, isHttpEnabled } = kit.settings();
  const server = isHttpEnabled ? await listen(kit, options.listen) : undefined;
  const stdio = enableStdioTransport ? kit.serveStdio(options.stdio) : undefined;
  const report = options.report ?? ((text: string) => void process.stderr.write(`${text}\n`));
  report(kit.bootReport() + (server === undefined ? "" : `\n  Address: ${server.url}`));

  const { promise: stopped, resolve } = Promise.withResolvers<void>();
  let closing: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    closing ??= keepAliveDuring(async () => {
      await (server === undefined ? kit.shutdown() : server.close());
      stopListening();
      resolve();
    });
    return closing;
  };
  const stopListening = options.handleSignals === false ? (): void => {} : closeOnSignals(close);
  if (stdio !== undefined && server === undefined) void stdio.ended.then(close);
  return { kit, url: server?.url, stopped, close, [Symbol.asyncDispose]: close };
}

const endSignals = ["SIGTERM", "SIGINT"] as const;

/** Closes on the first signal and then ends the process, unless the host listens to the signal too. */
function closeOnSignals(close: () => Promise<void>): () => void {
  const stop = (): void => {
    for (const signal of endSignals) process.off(signal, onSignal);
  };
  const onSignal = (signal: NodeJS.Signals): void => {
    // From here on a second signal ends the process, as without a listener.
    stop();
    const isShared = process.listenerCount(signal) > 0;
    const end = (): void => {
      if (!isShared) process.exit();
    };
    void close().then(end, end);
  };
  for (const signal of endSignals) process.on(signal, onSignal);
  return stop;
}
