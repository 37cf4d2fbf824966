import type {
  HttpPolicyEngine,
  RequestChange,
  RequestOutcome,
  ResponseOutcome,
  StoredContext,
} from "../policy/sideband/contract.ts";
import type { HeaderArguments, PdkCall } from "./pdk.ts";
import { internalErrorExit, type PhaseHandler, type PhaseEnd, type PhaseExit } from "./phase.ts";
import type { PhaseLog, PhaseRecord } from "./phase-log.ts";
import { contextKeys, doneMark, readRequest, readResponse } from "./request-facts.ts";
import type { SharedSecret } from "./shared-secret.ts";

/** What both phases of a configured plugin work with. */
export interface PhaseDeps {
  readonly engine: HttpPolicyEngine;
  readonly secret: SharedSecret;
  readonly phaseLog: PhaseLog;
  /** Most milliseconds for one question to the policy. */
  readonly budgetMs: number;
  /** Whether requests may have left something about MCP. */
  readonly withMcp: boolean;
}

/** Asks about the request; lets it go on, changed as the policy wants, or answers the client. */
export function createAccessHandler({ engine, secret, phaseLog, budgetMs }: PhaseDeps): PhaseHandler {
  return async ({ kong, signal }) => {
    const request = await readRequest(kong);
    await secret.refresh(kong);
    const { outcome, record } = await phaseLog.capture(() =>
      engine.evaluateRequest(request, { signal, budgetMs }),
    );
    await finishAccess(kong, outcome, record);
    return outcome.action === "continue" ? { end: "continue" } : exitWith(outcome.answer);
  };
}

/** Everything that Kong has to do before it goes on, in one go; the mark for the guard is the last (PX-03). */
async function finishAccess(kong: PdkCall, outcome: RequestOutcome, record: PhaseRecord): Promise<void> {
  const calls: Promise<void>[] = [];
  if (outcome.action === "continue") {
    for (const change of outcome.changes) calls.push(applyRequestChange(kong, change));
    if (outcome.store !== undefined) calls.push(...storeContext(kong, outcome.store));
  }
  calls.push(record.report(kong));
  if (outcome.action === "continue")
    calls.push(kong("kong.ctx.shared.set", contextKeys.accessDone, doneMark));
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

/** Kong hands `host` to nginx as one text and fails on a list; single values are texts for all. */
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

/** Asks about the upstream's response, and gives the client what the policy makes of it. */
export function createResponseHandler({
  engine,
  secret,
  phaseLog,
  budgetMs,
  withMcp,
}: PhaseDeps): PhaseHandler {
  return async ({ kong, signal }) => {
    if (!engine.hasResponsePhase) {
      await kong("kong.ctx.shared.set", contextKeys.responseDone, doneMark);
      return { end: "continue" };
    }
    const { response, stored } = await readResponse(kong, { withMcp });
    if (stored === undefined) {
      // Access never came to its end for this request: there is nothing that a policy could judge (PA-217).
      await Promise.all([
        kong("kong.log.err", "the access phase left no context for this request"),
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
