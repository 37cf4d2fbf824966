import { AsyncLocalStorage } from "node:async_hooks";

import type {
  HttpPolicyEngine,
  HttpRequestFacts,
  HttpResponseFacts,
  RequestChange,
  RequestOutcome,
  ResponseOutcome,
  SidebandLogEntry,
  StoredContext,
} from "../policy/sideband/contract.ts";
import type { HeaderArguments, PdkCall } from "./pdk.ts";
import { internalErrorExit, type PhaseEnd, type PhaseExit, type PhaseHandler } from "./phase-event.ts";
import type { SharedSecret } from "./engine-pool.ts";

/** What both phases of a configured plugin need. */
export interface PhaseDeps {
  readonly engine: HttpPolicyEngine;
  readonly secret: SharedSecret;
  readonly phaseLog: PhaseLog;
  /** How long one decision may take. */
  readonly budgetMs: number;
  /** Whether the access phase stores MCP facts. */
  readonly withMcp: boolean;
}

/** The access phase: has the request decided, then applies the changes or answers the client. */
export function createAccessHandler({ engine, secret, phaseLog, budgetMs }: PhaseDeps): PhaseHandler {
  return async ({ kong, signal }) => {
    const request = await readRequest(kong);
    await secret.refresh(kong);
    const { outcome, record } = await phaseLog.capture(() => engine.evaluateRequest(request, { signal, budgetMs }));
    await finishAccess(kong, outcome, record);
    return outcome.action === "continue" ? { end: "continue" } : exitWith(outcome.answer);
  };
}

/** Sends all PDK calls at once; the mark for the guard comes last (PX-03). */
async function finishAccess(kong: PdkCall, outcome: RequestOutcome, record: PhaseRecord): Promise<void> {
  const calls: Promise<void>[] = [];
  if (outcome.action === "continue") {
    for (const change of outcome.changes) calls.push(applyRequestChange(kong, change));
    if (outcome.store !== undefined) calls.push(...storeContext(kong, outcome.store));
  }
  calls.push(record.report(kong));
  if (outcome.action === "continue") calls.push(kong("kong.ctx.shared.set", contextKeys.accessDone, doneMark));
  await Promise.all(calls);
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
  const calls = [kong("kong.ctx.shared.set", contextKeys.request, store.paz_original_request)];
  if (store.paz_state !== undefined) {
    calls.push(kong("kong.ctx.shared.set", contextKeys.state, store.paz_state));
  }
  if (store.paz_mcp !== undefined) calls.push(kong("kong.ctx.shared.set", contextKeys.mcp, store.paz_mcp));
  return calls;
}

/** The response phase: has the upstream's response decided, and sends the client the outcome. */
export function createResponseHandler({ engine, secret, phaseLog, budgetMs, withMcp }: PhaseDeps): PhaseHandler {
  return async ({ kong, signal }) => {
    if (!engine.hasResponsePhase) {
      await kong("kong.ctx.shared.set", contextKeys.responseDone, doneMark);
      return { end: "continue" };
    }
    const { response, stored } = await readResponse(kong, { withMcp });
    if (stored === undefined) {
      // The access phase did not finish, so there is nothing to decide on (PA-217).
      await Promise.all([
        kong("kong.log.err", "the access phase stored no context for this request"),
        kong("kong.ctx.shared.set", contextKeys.responseDone, doneMark),
      ]);
      return { end: "exit", exit: internalErrorExit };
    }
    await secret.refresh(kong);
    const { outcome, record } = await phaseLog.capture(() =>
      engine.evaluateResponse(response, stored, { signal, budgetMs }),
    );
    await finishResponse(kong, outcome, record);
    return outcome.action === "pass" ? { end: "continue" } : exitWith(outcome.answer);
  };
}

async function finishResponse(kong: PdkCall, outcome: ResponseOutcome, record: PhaseRecord): Promise<void> {
  const cleared = outcome.action === "answer" ? outcome.clearHeaders : [];
  await Promise.all([
    ...cleared.map((name) => kong("kong.response.clear_header", name)),
    record.report(kong),
    kong("kong.ctx.shared.set", contextKeys.responseDone, doneMark),
  ]);
}

function exitWith(exit: PhaseExit): PhaseEnd {
  return { end: "exit", exit };
}

/** The most headers that Kong returns; without a limit it drops those after the hundredth. */
const headerLimit = 1000;

/**
 * With a size Kong also reads bodies that nginx buffered on disk; without one the client gets a 500 for them (PX-05).
 * Zero means "any size" only from Kong 3.8 on; a large number works in every version that has the argument.
 */
const anySize = 2 ** 31 - 1;

/** Reads the client's request with concurrent PDK calls (PA-216). */
async function readRequest(kong: PdkCall): Promise<HttpRequestFacts> {
  const [
    clientAddress,
    clientPort,
    method,
    scheme,
    host,
    port,
    path,
    query,
    httpVersion,
    headers,
    clientCertificate,
    body,
  ] = await Promise.all([
    kong("kong.client.get_ip"),
    kong("kong.client.get_port"),
    kong("kong.request.get_method"),
    kong("kong.request.get_forwarded_scheme"),
    kong("kong.request.get_forwarded_host"),
    kong("kong.request.get_forwarded_port"),
    kong("kong.request.get_forwarded_path"),
    kong("kong.request.get_raw_query"),
    kong("kong.request.get_http_version"),
    kong("kong.request.get_headers", headerLimit),
    kong("kong.client.tls.get_full_client_certificate_chain"),
    kong("kong.request.get_raw_body", anySize),
  ]);
  return {
    clientAddress,
    clientPort,
    method,
    scheme,
    host,
    port,
    path,
    query,
    httpVersion,
    headers,
    headerLimit,
    clientCertificate,
    body,
  };
}

/** Reads the upstream's response and what the access phase stored, if it stored anything. */
async function readResponse(
  kong: PdkCall,
  { withMcp }: { readonly withMcp: boolean },
): Promise<{ readonly response: HttpResponseFacts; readonly stored: StoredContext | undefined }> {
  const [request, state, status, headers, body, mcp] = await Promise.all([
    kong("kong.ctx.shared.get", contextKeys.request),
    kong("kong.ctx.shared.get", contextKeys.state),
    kong("kong.response.get_status"),
    kong("kong.response.get_headers", headerLimit),
    kong("kong.service.response.get_raw_body"),
    withMcp ? kong("kong.ctx.shared.get", contextKeys.mcp) : undefined,
  ]);
  return {
    response: { status, headers, headerLimit, body },
    stored:
      request === undefined
        ? undefined
        : {
            paz_original_request: request,
            ...(state === undefined ? {} : { paz_state: state }),
            ...(mcp === undefined ? {} : { paz_mcp: mcp }),
          },
  };
}

/** Keys of `kong.ctx.shared`, for the response phase and the guard in Kong (PA-131, PA-162, PX-03). */
const contextKeys = {
  request: "paz_original_request",
  state: "paz_state",
  mcp: "paz_mcp",
  accessDone: "paz_access",
  responseDone: "paz_response",
} as const;

/** The value of the two `…Done` keys. */
const doneMark = "done";

/** Routes the engine's log entries: warnings and errors to Kong's log, the rest to this process's (PA-138). */
export interface PhaseLog {
  /** Logs one entry of the engine. */
  readonly write: (entry: SidebandLogEntry) => void;
  /** Runs part of a phase and captures what it logs for Kong. */
  capture<Outcome>(work: () => Promise<Outcome>): Promise<{ readonly outcome: Outcome; readonly record: PhaseRecord }>;
}

/** The captured entries of a phase. */
export interface PhaseRecord {
  /** Writes them to Kong's log, in order. */
  report(kong: PdkCall): Promise<void>;
}

/**
 * Makes a log for phases that run concurrently. The engine has one log for all of them; the asynchronous context tells
 * which phase an entry belongs to. `line` gets the entries that are not for Kong.
 */
export function createPhaseLog(line: (entry: SidebandLogEntry) => void): PhaseLog {
  const current = new AsyncLocalStorage<SidebandLogEntry[]>();
  return {
    write(entry) {
      const entries = entry.level === "warn" || entry.level === "error" ? current.getStore() : undefined;
      if (entries === undefined) line(entry);
      else entries.push(entry);
    },
    async capture(work) {
      const entries: SidebandLogEntry[] = [];
      try {
        const outcome = await current.run(entries, work);
        return { outcome, record: { report: (kong) => report(kong, entries) } };
      } catch (error) {
        // The phase cannot report them any more.
        for (const entry of entries) line(entry);
        throw error;
      }
    },
  };
}

async function report(kong: PdkCall, entries: readonly SidebandLogEntry[]): Promise<void> {
  await Promise.all(
    entries.map((entry) => kong(entry.level === "error" ? "kong.log.err" : "kong.log.warn", JSON.stringify(entry))),
  );
}
