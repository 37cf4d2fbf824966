import type { CaptureRecord, Frame, FrameContext, FrameDecision } from "../../src/recorder/contract.ts";
import type { CaptureLine } from "../../src/recorder/store/store-contract.ts";

/** One request of a client and what became of it, in the terms of a test. */
export interface ToldCall {
  readonly method: string;
  readonly params?: unknown;
  readonly result?: unknown;
  readonly error?: unknown;
  /** What the upstream got and said, where that differs from what the client sent and got; null where it got nothing. */
  readonly upstream?: { readonly params?: unknown; readonly result?: unknown } | null;
  readonly target?: string;
  readonly context?: Partial<FrameContext>;
  /** What the server sent before it answered. */
  readonly before?: readonly ToldStep[];
  readonly decision?: Partial<FrameDecision>;
  readonly ms?: number;
  readonly at?: number;
  /** The id of the exchange that this call goes on with. */
  readonly operation?: string;
  /** The outcome of its answer, where it is not plain. */
  readonly outcome?: Frame["outcome"];
  /** No answer came. */
  readonly isOpen?: boolean;
}

/** A notification or, with a reply, a question of the server. */
export interface ToldStep {
  readonly method: string;
  readonly params?: unknown;
  readonly reply?: unknown;
}

/** When captures of tests begin. */
export const captureStart = Date.UTC(2026, 10, 15, 12, 0, 0);

/** The lines of a capture in which these calls come one after the other. */
export function captureOf(calls: readonly ToldCall[], id = "capture-1"): CaptureLine[] {
  const frames: Frame[] = [];
  let mono = 0;
  let count = 0;
  const push = (frame: Omit<Frame, "capture" | "seq" | "at" | "mono" | "bytes">): number => {
    const seq = frames.length + 1;
    frames.push({
      capture: id,
      seq,
      at: captureStart + mono,
      mono,
      bytes: frame.body?.length ?? 0,
      ...frame,
    });
    return seq;
  };
  for (const call of calls) {
    const exchange = `${id}-x${++count}`;
    if (call.at !== undefined) mono = call.at - captureStart;
    tell(call, exchange);
    mono += 1;
  }

  function tell(call: ToldCall, exchange: string): void {
    const { method, target = targetOf(call.params), decision, before = [], upstream, ms = 5 } = call;
    const common = { exchange, operation: call.operation ?? exchange };
    const named = { method, ...(target === undefined ? {} : { target }) };
    const rpc = { id: `n:${count}` };
    const context: FrameContext = {
      route: "default",
      principal: "anonymous",
      revision: "2025-11-25",
      transport: "http",
      session: "session-1",
      ...call.context,
    };
    const body = text(count, { method, params: call.params });
    const first = { leg: "client", passing: "received", direction: "c2s" } as const;
    const asked = push({ kind: "request", ...first, ...common, ...named, ...rpc, context, body });
    if (decision !== undefined) {
      const made: FrameDecision = {
        by: "policy",
        name: "rules",
        phase: "request",
        effect: "allow",
        enforced: true,
        durationMs: 0.1,
        ...decision,
      };
      push({ kind: "decision", ...first, ...common, decision: made });
    }
    if (upstream !== null) {
      const own =
        upstream?.params === undefined ? { same: asked } : { body: text(count, { method, params: upstream.params }) };
      push({
        kind: "request",
        leg: "upstream",
        passing: "sent",
        direction: "c2s",
        ...common,
        ...named,
        ...rpc,
        ...own,
      });
    }
    for (const [index, step] of before.entries()) child(step, `${exchange}-${index + 1}`, exchange, context);
    mono += ms;
    if (call.isOpen === true) return;
    const kind = call.error === undefined ? "result" : "error";
    const answer = text(count, kind === "error" ? { error: call.error } : { result: call.result ?? {} });
    const { outcome } = call;
    const back = { direction: "c2s", ...common, ...rpc, ...(outcome === undefined ? {} : { outcome }) } as const;
    if (upstream === null) {
      push({ kind, leg: "client", passing: "sent", ...back, body: answer });
      return;
    }
    const own = upstream?.result === undefined ? answer : text(count, { result: upstream.result });
    const got = push({
      kind: own === answer ? kind : "result",
      leg: "upstream",
      passing: "received",
      ...back,
      body: own,
    });
    push({
      kind,
      leg: "client",
      passing: "sent",
      ...back,
      ...(own === answer ? { same: got } : { body: answer }),
    });
  }

  function child(step: ToldStep, exchange: string, parent: string, context: FrameContext): void {
    const isQuestion = step.reply !== undefined;
    const kind = isQuestion ? "request" : "notification";
    const { method } = step;
    const common = { exchange, operation: parent };
    const rpc = isQuestion ? { id: "n:900" } : {};
    const body = JSON.stringify({
      jsonrpc: "2.0",
      ...(isQuestion ? { id: 900 } : {}),
      method,
      params: step.params,
    });
    const down = { direction: "s2c", ...common, ...rpc, method } as const;
    const came = push({
      kind,
      leg: "upstream",
      passing: "received",
      ...down,
      context: { ...context, parent },
      body,
    });
    push({ kind, leg: "client", passing: "sent", ...down, same: came });
    if (!isQuestion) return;
    const reply = JSON.stringify({ jsonrpc: "2.0", id: 900, result: step.reply });
    const up = { direction: "s2c", ...common, ...rpc } as const;
    const said = push({ kind: "result", leg: "client", passing: "received", ...up, body: reply });
    push({ kind: "result", leg: "upstream", passing: "sent", ...up, same: said });
  }

  const capture: CaptureRecord = {
    id,
    format: 2,
    writer: "headgate test",
    startedAt: captureStart,
    endedAt: captureStart + mono,
    frames: frames.length,
    bytes: 0,
    lost: 0,
    omitted: 0,
    redacted: 0,
    rules: [],
  };
  return [
    { type: "capture", ...capture },
    ...frames.map((frame): CaptureLine => ({ type: "frame", ...frame })),
    { type: "end", capture: id, frames: frames.length, exchanges: 0 },
  ];
}

function text(id: number, members: Readonly<Record<string, unknown>>): string {
  return JSON.stringify({ jsonrpc: "2.0", id, ...members });
}

function targetOf(params: unknown): string | undefined {
  if (typeof params !== "object" || params === null) return undefined;
  const { name, uri } = params as Readonly<Record<string, unknown>>;
  return typeof name === "string" ? name : typeof uri === "string" ? uri : undefined;
}
