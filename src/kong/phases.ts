import { AsyncLocalStorage } from "node:async_hooks";

import type {
  HttpPolicyEngine,
  RequestChange,
  RequestOutcome,
  ResponseOutcome,
  SidebandLogEntry,
  StoredContext,
} from "../policy/sideband/contract.ts";
import type { SharedSecret } from "./engine-pool.ts";
import type { HeaderArguments, PdkCall } from "./pdk.ts";
import { internalErrorExit, type PhaseEnd, type PhaseExit, type PhaseHandler, type PhaseName } from "./phase-event.ts";
import {
  clearResponseHeaders,
  contextKeys,
  headerLimit,
  readRequestBody,
  readRequestHead,
  readResponseBody,
  readResponseHead,
  type RequestHead,
  type StoredParts,
} from "./phase-facts.ts";

export interface KongPhaseDeps extends StoredParts {
  readonly engine: HttpPolicyEngine;
  readonly secret: SharedSecret;
  readonly phaseLog: KongPhaseLog;
  /** How long one decision may take. */
  readonly budgetMs: number;
  /** The longest body that is evaluated; 0 for no limit. */
  readonly maxBodyBytes: number;
  /** The head of every log entry, without the phase. */
  readonly logHead: Pick<SidebandLogEntry, "plugin" | "service_url">;
  /** Whether Kong runs a response phase of this plugin at all. */
  readonly hasResponseHandler: boolean;
}

/** The access phase: has the request decided, then applies the changes or answers the client. */
export function createAccessHandler(deps: KongPhaseDeps): PhaseHandler {
  const { engine, secret, phaseLog, budgetMs, maxBodyBytes, hasResponseHandler } = deps;

  async function refuse(kong: PdkCall, status: number, msg: string, fields?: LogFields): Promise<PhaseEnd> {
    await Promise.all([logInKong(kong, entryOf(deps, "access", "warn", msg, fields)), markRefused(kong)]);
    return exitWith({ ...internalErrorExit, status });
  }

  return {
    async run({ kong, signal }) {
      const head = await readRequestHead(kong);
      if (engine.hasResponsePhase) {
        // Kong does not run the response phase for an upgraded connection: its responses would not be evaluated.
        if (head.headers["upgrade"] !== undefined)
          return refuse(kong, 400, "Upgrade refused: responses of upgraded connections cannot be evaluated");
        await ensureBuffering(kong, head);
      }
      const body = await readRequestBody(kong, head.headers, maxBodyBytes);
      if (body === undefined) return refuse(kong, 413, "Request body over max_body_bytes", { limit: maxBodyBytes });
      await secret.refresh(kong, (msg) => logInKong(kong, entryOf(deps, "access", "warn", msg)));
      const { outcome, record } = await phaseLog.capture(() =>
        engine.evaluateRequest({ ...head, body }, { signal, budgetMs }),
      );
      // Without a response policy there is nothing left to wait for, whatever Kong does with the response.
      await finishAccess(kong, outcome, record, hasResponseHandler && !engine.hasResponsePhase);
      return outcome.action === "continue" ? { end: "continue" } : exitWith(outcome.answer);
    },
    async fail(kong, reason) {
      await logInKong(kong, entryOf(deps, "access", "error", "Unexpected error", { error: reason }));
      await markRefused(kong);
    },
  };
}

/**
 * Before 3.9, Kong does not buffer responses to HTTP/2 clients and silently skips the response phase. There this call
 * fails with the reason, and Kong answers 500; from 3.9 on it changes nothing.
 */
async function ensureBuffering(kong: PdkCall, { httpVersion }: RequestHead): Promise<void> {
  if (httpVersion >= 2) await kong("kong.service.request.enable_buffering");
}

/** Sends all PDK calls at once; the mark for the guard comes last (PX-03). */
async function finishAccess(
  kong: PdkCall,
  outcome: RequestOutcome,
  record: PhaseRecord,
  isResponseFree: boolean,
): Promise<void> {
  const calls: Promise<void>[] = [];
  if (outcome.action === "continue") {
    for (const change of outcome.changes) calls.push(applyRequestChange(kong, change));
    if (outcome.store !== undefined) calls.push(...storeContext(kong, outcome.store));
    if (isResponseFree) calls.push(kong("kong.ctx.shared.set", contextKeys.response, "done"));
  }
  calls.push(record.report(kong));
  calls.push(
    outcome.action === "continue" ? kong("kong.ctx.shared.set", contextKeys.access, "done") : markRefused(kong),
  );
  await Promise.all(calls);
}

/** Tells the guard that the answer is the plugin's own. */
function markRefused(kong: PdkCall): Promise<void> {
  return kong("kong.ctx.shared.set", contextKeys.access, "refused");
}

function applyRequestChange(kong: PdkCall, change: RequestChange): Promise<void> {
  switch (change.type) {
    case "set-headers":
      return kong("kong.service.request.set_headers", headerArguments(change.headers));
    case "clear-header":
      return kong("kong.service.request.clear_header", change.name);
    case "set-method":
      return kong("kong.service.request.set_method", change.method);
    case "set-path":
      return kong("kong.service.request.set_path", change.path);
    case "set-query":
      return kong("kong.service.request.set_raw_query", change.query);
    case "set-body":
      return kong("kong.service.request.set_raw_body", change.body);
  }
}

/** Kong passes `host` to nginx as a string and fails on a list. */
function headerArguments(headers: Readonly<Record<string, readonly string[]>>): HeaderArguments {
  return Object.fromEntries(
    Object.entries(headers).map(([name, values]) => {
      const [only = ""] = values;
      return [name, values.length === 1 || name === "host" ? only : values];
    }),
  );
}

function storeContext(kong: PdkCall, store: StoredContext): Promise<void>[] {
  return [contextKeys.request, contextKeys.state, contextKeys.mcp, contextKeys.trace].flatMap((key) => {
    const value = store[key];
    return value === undefined ? [] : [kong("kong.ctx.shared.set", key, value)];
  });
}

/** The response phase: has the upstream's response decided, and sends the client the outcome. */
export function createResponseHandler(deps: KongPhaseDeps): PhaseHandler {
  const { engine, secret, phaseLog, budgetMs, maxBodyBytes } = deps;

  /** Answers without a decision; discards the upstream's response. */
  async function refuse(
    kong: PdkCall,
    status: number,
    entry: SidebandLogEntry,
    headers: Readonly<Record<string, unknown>>,
  ): Promise<PhaseEnd> {
    await logInKong(kong, entry);
    await clearResponseHeaders(kong, headers);
    await markJudged(kong);
    return exitWith({ ...internalErrorExit, status });
  }

  return {
    async run({ kong, signal }) {
      if (!engine.hasResponsePhase) return { end: "continue" };
      const { response, stored } = await readResponseHead(kong, deps);
      if (stored === undefined) {
        // The access phase did not finish, so there is nothing to decide on (PA-217).
        const entry = entryOf(deps, "response", "error", "The access phase stored no context for this request");
        return refuse(kong, 500, entry, response.headers);
      }
      const body = await readResponseBody(kong, response.headers, maxBodyBytes);
      if (body === undefined) {
        const entry = entryOf(deps, "response", "warn", "Response body over max_body_bytes", { limit: maxBodyBytes });
        return refuse(kong, 502, entry, response.headers);
      }
      await secret.refresh(kong, (msg) => logInKong(kong, entryOf(deps, "response", "warn", msg)));
      const { outcome, record } = await phaseLog.capture(() =>
        engine.evaluateResponse({ ...response, body }, stored, { signal, budgetMs }),
      );
      await finishResponse(kong, outcome, record);
      return outcome.action === "pass" ? { end: "continue" } : exitWith(outcome.answer);
    },
    async fail(kong, reason) {
      const entry = entryOf(deps, "response", "error", "Unexpected error", { error: reason });
      await refuse(kong, 500, entry, await kong("kong.response.get_headers", headerLimit));
    },
  };
}

async function finishResponse(kong: PdkCall, outcome: ResponseOutcome, record: PhaseRecord): Promise<void> {
  const cleared = outcome.action === "answer" ? outcome.clearHeaders : [];
  await Promise.all([...cleared.map((name) => kong("kong.response.clear_header", name)), record.report(kong)]);
  // A response with more headers than Kong shows at once is refused, and the rest of them must go too.
  if (cleared.length > 0 && outcome.action === "answer" && outcome.refusal?.reason === "bad_request")
    await clearResponseHeaders(kong, await kong("kong.response.get_headers", headerLimit));
  await markJudged(kong);
}

function markJudged(kong: PdkCall): Promise<void> {
  return kong("kong.ctx.shared.set", contextKeys.response, "done");
}

function exitWith(exit: PhaseExit): PhaseEnd {
  return { end: "exit", exit };
}

type LogFields = Readonly<Record<string, unknown>>;

function entryOf(
  { logHead: { plugin, service_url } }: KongPhaseDeps,
  phase: PhaseName,
  level: "warn" | "error",
  msg: string,
  fields: LogFields = {},
): SidebandLogEntry {
  return { plugin, phase, service_url, level, msg, ...fields };
}

/** Routes the engine's log entries: warnings and errors to Kong's log, the rest to this process's (PA-138). */
export interface KongPhaseLog {
  /** Logs one entry of the engine. */
  readonly write: (entry: SidebandLogEntry) => void;
  /** Runs part of a phase and captures what it logs for Kong. */
  capture<Outcome>(work: () => Promise<Outcome>): Promise<{ readonly outcome: Outcome; readonly record: PhaseRecord }>;
}

/** The captured entries of a phase. */
interface PhaseRecord {
  /** Writes them to Kong's log, in order. */
  report(kong: PdkCall): Promise<void>;
}

/**
 * Makes a log for phases that run concurrently. The engine has one log for all of them; the asynchronous context tells
 * which phase an entry belongs to. `line` gets the entries that are not for Kong.
 */
export function createKongPhaseLog(line: (entry: SidebandLogEntry) => void): KongPhaseLog {
  const current = new AsyncLocalStorage<SidebandLogEntry[]>();
  return {
    write(entry) {
      const entries = isForKong(entry) ? current.getStore() : undefined;
      if (entries === undefined) line(entry);
      else entries.push(entry);
    },
    async capture(work) {
      const entries: SidebandLogEntry[] = [];
      try {
        const outcome = await current.run(entries, work);
        return { outcome, record: { report: (kong) => report(kong, entries) } };
      } catch (error) {
        // The phase can no longer report them.
        for (const entry of entries) line(entry);
        throw error;
      }
    },
  };
}

function isForKong({ level }: SidebandLogEntry): boolean {
  return level === "warn" || level === "error";
}

async function report(kong: PdkCall, entries: readonly SidebandLogEntry[]): Promise<void> {
  await Promise.all(entries.map((entry) => logInKong(kong, entry)));
}

/** Writes one entry to Kong's own log, as one JSON object (PA-133). */
function logInKong(kong: PdkCall, entry: SidebandLogEntry): Promise<void> {
  return kong(entry.level === "error" ? "kong.log.err" : "kong.log.warn", JSON.stringify(entry));
}
