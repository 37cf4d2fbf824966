import type { CallToolResult, InputRequiredResult, ServerContext } from "@modelcontextprotocol/server";

import type { Clock } from "../../core/exchange.ts";
import type { AccessDecision, CallEvent, Failure, KitCaller, ToolRefusal } from "../contract/contract.ts";
import { authorizeTool, type Requester } from "./authorization.ts";
import type { ToolCatalog } from "./tool-catalog.ts";
import { readFailure } from "../contract/failure.ts";
import type { JsonObject } from "../contract/row.ts";
import type { ToolEntry } from "./tool-entry.ts";

/** How a call ended. */
export type ToolOutcome =
  | { readonly kind: "data"; readonly value: JsonObject }
  | { readonly kind: "result"; readonly result: CallToolResult | InputRequiredResult }
  | { readonly kind: "failed"; readonly failure: Failure }
  | { readonly kind: "refused"; readonly refusal: ToolRefusal }
  | { readonly kind: "unknown" }
  | { readonly kind: "cancelled" }
  /** A bug or a broken hook; the id is in the log with the reason, and nothing of it goes out (KO-141). */
  | { readonly kind: "fault"; readonly id: string };

/** Runs calls: authorisation, validation, hooks, output check and diagnostics, once each (KO-021). */
export interface Executor {
  /** The decision that `run` makes, for transports that must know it beforehand. */
  authorize(name: string, caller: Requester): AccessDecision;
  run(entry: ToolEntry, given: unknown, caller: KitCaller, context?: ServerContext): Promise<ToolOutcome>;
  onCall(listener: (facts: CallEvent) => void): () => void;
  /** Resolves when nothing runs any more. */
  idle(): Promise<void>;
  readonly running: number;
}

/** An executor over a catalogue that may be replaced between calls. */
export function createExecutor(catalogue: () => ToolCatalog, clock: Clock, newId: () => string): Executor {
  const listeners = new Set<(facts: CallEvent) => void>();
  const waiting = new Set<() => void>();
  let running = 0;
  return {
    get running() {
      return running;
    },
    authorize: (name, caller) => {
      const entry = catalogue().tools.get(name);
      return entry === undefined ? { kind: "unknown" } : authorizeTool(entry, caller, catalogue().settings);
    },
    run,
    onCall: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    idle: async () => {
      if (running === 0) return;
      await new Promise<void>((resolve) => {
        waiting.add(resolve);
      });
    },
  };

  async function run(
    entry: ToolEntry,
    given: unknown,
    caller: KitCaller,
    context: ServerContext | undefined,
  ): Promise<ToolOutcome> {
    const started = clock.now();
    running++;
    try {
      const outcome = await attempt(entry, given, caller, context);
      report(entry.name, caller, outcome, clock.now() - started);
      return outcome;
    } finally {
      running--;
      if (running === 0) settleWaiting();
    }
  }

  function settleWaiting(): void {
    for (const resolve of waiting) resolve();
    waiting.clear();
  }

  async function attempt(
    entry: ToolEntry,
    given: unknown,
    caller: KitCaller,
    context: ServerContext | undefined,
  ): Promise<ToolOutcome> {
    const verdict = authorizeTool(entry, caller, catalogue().settings);
    if (verdict.kind === "unknown") return { kind: "unknown" };
    if (verdict.kind === "refused") return { kind: "refused", refusal: verdict.refusal };
    try {
      caller.signal.throwIfAborted();
      const output = await entry.run(given, { caller, context });
      if (output.kind === "result") return output;
      const problem = entry.checkOutput?.(output.value);
      return problem === undefined ? output : fault(entry, caller, `the result does not fit: ${problem}`);
    } catch (error) {
      const failure = readFailure(error);
      if (failure !== undefined) return failed(entry, caller, failure, error);
      if (caller.signal.aborted) return { kind: "cancelled" };
      return fault(entry, caller, error instanceof Error ? (error.stack ?? error.message) : String(error));
    }
  }

  function failed(entry: ToolEntry, { log }: KitCaller, failure: Failure, error: unknown): ToolOutcome {
    if (failure.code === "store_failed") {
      const { cause } = error instanceof Error ? error : { cause: undefined };
      log.error({ tool: entry.name, reason: cause instanceof Error ? cause.message : undefined }, "the store failed");
    }
    return { kind: "failed", failure };
  }

  function fault(entry: ToolEntry, { log }: KitCaller, reason: string): ToolOutcome {
    const id = newId();
    log.error({ tool: entry.name, fault: id, reason }, "a call ended in a fault");
    return { kind: "fault", id };
  }

  function report(tool: string, { via, log }: KitCaller, outcome: ToolOutcome, durationMs: number): void {
    // Unknown names come from outside and would make new metrics without end.
    if (outcome.kind === "unknown") return;
    const facts: CallEvent = { tool, via, outcome: outcomeLabel(outcome), durationMs };
    log.debug({ tool, outcome: facts.outcome, durationMs: Math.round(durationMs) }, "call");
    for (const listener of listeners) listener(facts);
  }
}

function outcomeLabel(outcome: Exclude<ToolOutcome, { kind: "unknown" }>): CallEvent["outcome"] {
  switch (outcome.kind) {
    case "data":
      return "ok";
    case "result":
      return outcome.result["isError"] === true ? "tool_failed" : "ok";
    case "failed":
      return outcome.failure.code;
    case "refused":
    case "cancelled":
    case "fault":
      return outcome.kind;
  }
}
