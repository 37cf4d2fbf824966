import type { HttpPolicyEngine, SidebandEngineDeps, SidebandLogEntry } from "../../src/policy/sideband/contract.ts";
import type { PdpReply, PdpRequest } from "../../src/policy/pdp/client.ts";
import { createSidebandEngine } from "../../src/policy/sideband/engine.ts";
import { createSidebandRegistry, type EndedSpan, type SidebandRegistry } from "./sideband-registry.ts";
import { parseSidebandSettings } from "../../src/policy/sideband/settings.ts";
import { createFakeTime, type FakeTime } from "./fake-time.ts";
import { plainSettings } from "./mock-pingauthorize.ts";

/** What the decision point in memory does with a call: a reply, or an error in place of one. */
export type FakeReply =
  | {
      readonly status?: number;
      readonly headers?: PdpReply["headers"];
      readonly json?: unknown;
      readonly text?: string;
    }
  | Error;

/** One call that an engine made. */
export interface FakeCall extends PdpRequest {
  readonly payload: Readonly<Record<string, unknown>>;
  readonly text: string;
}

/** An engine whose decision point is a function, without sockets and with fake time. */
export interface FakedEngine {
  readonly engine: HttpPolicyEngine;
  readonly calls: readonly FakeCall[];
  readonly logs: readonly SidebandLogEntry[];
  readonly spans: readonly EndedSpan[];
  readonly metrics: SidebandRegistry;
  readonly time: FakeTime;
}

/** Makes an engine that asks a function. */
export function createFakedEngine(
  settings: Readonly<Record<string, unknown>>,
  decide: (call: FakeCall, index: number) => FakeReply | Promise<FakeReply>,
  surroundings: Partial<SidebandEngineDeps> = {},
): FakedEngine {
  const time = createFakeTime();
  const calls: FakeCall[] = [];
  const logs: SidebandLogEntry[] = [];
  const spans: EndedSpan[] = [];
  const metrics = createSidebandRegistry((span) => void spans.push(span));
  const engine = createSidebandEngine(parseSidebandSettings({ ...plainSettings, ...settings }), {
    clock: time.clock,
    setTimer: time.setTimer,
    log: (entry) => void logs.push(entry),
    telemetry: metrics,
    client: {
      async post(request) {
        const text = request.body.toString("utf8");
        const call: FakeCall = { ...request, text, payload: JSON.parse(text) as FakeCall["payload"] };
        calls.push(call);
        const reply = await decide(call, calls.length - 1);
        if (reply instanceof Error) throw reply;
        const { status = 200, headers = {}, json = {} } = reply;
        return { status, headers, body: Buffer.from(reply.text ?? JSON.stringify(json)) };
      },
      close: () => {},
    },
    ...surroundings,
  });
  return { engine, calls, logs, spans, metrics, time };
}

/** Allows by repeating the question, as PingAuthorize does. */
export function echoed({ payload }: FakeCall): FakeReply {
  return { json: payload };
}
