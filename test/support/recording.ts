import fc from "fast-check";

import type { CaptureRecord, Frame, FrameDecision } from "../../src/recorder/contract.ts";

/** A capture for tests; nothing is missing of it unless said. */
export function captureRecord(id: string, more: Partial<CaptureRecord> = {}): CaptureRecord {
  return {
    id,
    format: 2,
    writer: "test",
    startedAt: 1_000_000,
    frames: 0,
    bytes: 0,
    lost: 0,
    omitted: 0,
    redacted: 0,
    rules: [],
    ...more,
  };
}

/** What an exchange for tests is about. */
export interface SampleExchange {
  readonly id: string;
  readonly capture?: string;
  readonly seq?: number;
  readonly at?: number;
  readonly method?: string;
  readonly target?: string;
  readonly route?: string;
  readonly principal?: string;
  readonly session?: string;
  readonly operation?: string;
  readonly parent?: string;
  /** Of the call, for its text. */
  readonly ask?: string;
  /** Of the answer; without one the exchange stays open. */
  readonly answer?: string;
  readonly outcome?: Frame["outcome"];
  readonly durationMs?: number;
  readonly decision?: Partial<FrameDecision>;
}

/** The frames of one call that went on as it came, from its request to its answer. */
export function callFrames(sample: SampleExchange): Frame[] {
  const { id, capture = "c1", seq = 0, at = 1_000_000 + seq, durationMs = 4, method = "tools/call" } = sample;
  const { target = "weather", route = "default", principal = "ann", operation = id, parent, session } = sample;
  const asking = { kind: "request", method, target, id: "n:1", bytes: 100 } as const;
  const context = {
    route,
    principal,
    revision: "2025-11-25",
    transport: "http",
    ...(parent === undefined ? {} : { parent }),
    ...(session === undefined ? {} : { session }),
  };
  const steps: Omit<Frame, "capture" | "seq" | "at" | "mono" | "exchange" | "operation" | "direction">[] = [
    {
      ...asking,
      leg: "client",
      passing: "received",
      context,
      body: bodyOf({ method, params: { text: sample.ask ?? "?" } }),
    },
    ...(sample.decision === undefined ? [] : [decisionStep(sample.decision)]),
    { ...asking, leg: "upstream", passing: "sent", same: seq },
  ];
  if (sample.answer !== undefined) {
    const { outcome = "ok" } = sample;
    const answering = {
      kind: outcome === "error" ? "error" : "result",
      id: "n:1",
      bytes: 50,
      outcome,
    } as const;
    const body = bodyOf({ result: { content: [{ type: "text", text: sample.answer }] } });
    steps.push({ ...answering, leg: "upstream", passing: "received", body });
    steps.push({ ...answering, leg: "client", passing: "sent", same: seq + steps.length - 1 });
  }
  return steps.map((step, index) => ({
    capture,
    seq: seq + index,
    at: at + index,
    mono: index === steps.length - 1 ? seq + durationMs : seq + index,
    direction: "c2s",
    exchange: id,
    operation,
    ...step,
  }));
}

function decisionStep(decision: Partial<FrameDecision>) {
  return {
    kind: "decision",
    leg: "client",
    passing: "received",
    bytes: 0,
    decision: {
      by: "policy",
      name: "cel",
      phase: "request",
      effect: "allow",
      enforced: true,
      durationMs: 0.1,
      ...decision,
    },
  } as const satisfies Partial<Frame>;
}

function bodyOf(members: object): string {
  return JSON.stringify({ jsonrpc: "2.0", id: 1, ...members });
}

/** Numbers frames anew in the order in which they stand, and what refers to them. */
function renumbered(frames: readonly Frame[]): Frame[] {
  const places = new Map(frames.map((frame, index) => [`${frame.exchange} ${frame.seq}`, index]));
  return frames.map(({ same, ...frame }, index) => ({
    ...frame,
    seq: index,
    at: 1_000_000 + index,
    mono: index * 1.5,
    ...(same === undefined ? {} : { same: places.get(`${frame.exchange} ${same}`) ?? 0 }),
  }));
}

const word = fc.constantFrom("weather", "Bern", "naïve", "x_y", "line\nbreak", '"quoted"', "Straße", "100%", "日本");

const sample = fc.record({
  method: fc.constantFrom("tools/call", "tools/list", "resources/read"),
  target: fc.constantFrom("weather", "add", "File"),
  route: fc.constantFrom("one", "two"),
  principal: fc.constantFrom("ann", "bob"),
  ask: fc.array(word, { maxLength: 3 }).map((words) => words.join(" ")),
  answer: fc.option(
    fc.array(word, { maxLength: 3 }).map((words) => words.join(" ")),
    { nil: undefined },
  ),
  outcome: fc.constantFrom("ok", "tool_error", "input_required", "error"),
  durationMs: fc.integer({ min: 0, max: 500 }),
  decision: fc.option(
    fc.record({
      effect: fc.constantFrom("allow", "change", "filter", "deny"),
      rule: fc.constantFrom("r1", "r2"),
    }),
    { nil: undefined },
  ),
});

/** Frames of some exchanges, woven into each other in any way that keeps the order within each. */
export const arbitraryFrames: fc.Arbitrary<readonly Frame[]> = fc
  .tuple(fc.array(sample, { maxLength: 12 }), fc.infiniteStream(fc.nat()), fc.boolean())
  .map(([samples, choices, isOver]) => {
    const lanes = samples.map(({ answer, decision, ...rest }, index) =>
      callFrames({
        ...rest,
        id: `x-${index}`,
        seq: index * 10,
        ...(answer === undefined ? {} : { answer }),
        ...(decision === undefined ? {} : { decision }),
      }),
    );
    const woven: Frame[] = [];
    for (
      let left = lanes.filter((lane) => lane.length > 0);
      left.length > 0;
      left = left.filter((lane) => lane.length > 0)
    ) {
      const lane = left[(choices.next().value ?? 0) % left.length];
      const frame = lane?.shift();
      if (frame !== undefined) woven.push(frame);
    }
    return renumbered(isOver ? [...woven, endFrame(10_000)] : woven);
  });

/** A line of a server's standard error. */
export function stderrFrame(seq: number, body: string): Frame {
  return { ...endFrame(seq), kind: "stderr", leg: "upstream", direction: "s2c", bytes: body.length, body };
}

/** The frame that ends a capture. */
export function endFrame(seq: number, capture = "c1"): Frame {
  return {
    capture,
    seq,
    at: 1_000_000 + seq,
    mono: seq,
    kind: "end",
    leg: "client",
    passing: "received",
    direction: "c2s",
    exchange: "",
    operation: "",
    bytes: 0,
  };
}
