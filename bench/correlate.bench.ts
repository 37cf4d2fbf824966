import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { systemClock, systemTimer } from "../src/core/exchange.ts";
import type { ErrorMessage, Message, RequestMessage, ResultMessage } from "../src/protocol/message.ts";
import { parse } from "../src/protocol/parse.ts";
import { type Correlator, createCorrelator } from "../src/sessions/pending/correlator.ts";
import type { OpenResult, ScopeDescriptor } from "../src/sessions/pending/entry.ts";
import { defaultTtl } from "../test/support/correlation.ts";
import { defaultCorrelationLimits } from "../src/sessions/pending/limits.ts";
import { measure, median } from "./measure.ts";
import type { BenchRow } from "./row.ts";

type Answer = ResultMessage | ErrorMessage;

const session: ScopeDescriptor = { kind: "session", revision: "2025-11-25", realm: "bench" };
const exchange: ScopeDescriptor = { kind: "exchange", revision: "2026-07-28", realm: "bench" };
/** Exchanges a round, two messages each. */
const count = 20_000;

/** What correlation costs beside parsing, in time and in memory. */
export async function run(): Promise<BenchRow[]> {
  return [...(await time()), ...memory(), ...leak()];
}

async function time(): Promise<BenchRow[]> {
  const { requests, answers } = traffic();
  const correlator = create();
  const scope = correlator.scope(session);
  const forEach = (work: (request: Buffer, answer: Buffer) => void) => () => {
    for (let index = 0; index < count; index++) {
      const [request, answer] = [requests[index], answers[index]];
      if (request !== undefined && answer !== undefined) work(request, answer);
    }
  };
  const costs = await measure([
    {
      name: "parse",
      run: forEach((request, answer) => {
        parsed(request);
        parsed(answer);
      }),
    },
    {
      name: "session",
      run: forEach((request, answer) => {
        checked(scope.open("client-to-server", parsedRequest(request), undefined));
        const { outcome } = scope.settle("server-to-client", parsedAnswer(answer));
        if (outcome !== "match") throw new Error(`an answer is ${outcome}`);
      }),
    },
    {
      name: "modern exchange",
      run: forEach((request, answer) => {
        const message = parsedRequest(request);
        const opening = checked(correlator.single(exchange, "client-to-server", message, undefined));
        opening.entry.settle(parsedAnswer(answer));
      }),
    },
  ]);
  correlator.close();
  const micros = (name: string): number => (median(costs.get(name)?.wallMs ?? []) * 1000) / (count * 2);
  const parseOnly = micros("parse");
  return ["session", "modern exchange"].map((name) => ({
    name: `[SC-075] parse and correlate 1 KB, ${name}`,
    value: micros(name),
    unit: "µs a message",
    threshold: { max: 5 },
    note: `parsing alone ${parseOnly.toFixed(2)} µs; GC ${median(costs.get(name)?.gcMs ?? []).toFixed(1)} ms of ${median(costs.get(name)?.wallMs ?? []).toFixed(0)} ms`,
  }));
}

function memory(): BenchRow[] {
  const pending = 10_000;
  const scopes = 1000;
  const before = heapBytes();
  const correlator = create();
  for (let scopeNumber = 0; scopeNumber < scopes; scopeNumber++) {
    const scope = correlator.scope(session);
    for (let index = 0; index < pending / scopes; index++) {
      const request = requestBytes(`request-${scopeNumber}-${index}`, `token-${scopeNumber}-${index}`, "");
      checked(scope.open("client-to-server", parsedRequest(request), undefined));
    }
  }
  const held = heapBytes() - before;
  correlator.close();
  return [
    {
      name: "[SC-075] memory of a pending entry",
      value: held / pending,
      unit: "B",
      threshold: { max: 2048 },
      note: "its share of the tables, its id and its token included",
    },
    {
      name: "[SC-075] 10,000 pending in 1,000 scopes",
      value: held / 2 ** 20,
      unit: "MB",
      threshold: { max: 100 },
      note: "correlation alone, without sockets and messages",
    },
  ];
}

/** A million exchanges in a session that stays: whatever they leave behind must not add up. */
function leak(): BenchRow[] {
  const correlator = create();
  const scope = correlator.scope(session);
  const { requests, answers } = traffic(1000, "");
  const messages = requests.map(parsedRequest);
  const results = answers.map(parsedAnswer);
  const exchangeAll = (times: number): void => {
    for (let turn = 0; turn < times; turn++) {
      for (const message of messages) checked(scope.open("client-to-server", message, undefined));
      for (const result of results) scope.settle("server-to-client", result);
    }
  };
  exchangeAll(100);
  const before = heapBytes();
  exchangeAll(900);
  const grown = heapBytes() - before;
  correlator.close();
  return [
    {
      name: "heap growth over 900,000 exchanges after the first 100,000",
      value: grown / 1024,
      unit: "KB",
      threshold: { max: 256 },
    },
  ];
}

function create(): Correlator<undefined> {
  return createCorrelator<undefined>({
    clock: systemClock,
    setTimer: systemTimer,
    mode: "terminate",
    limits: defaultCorrelationLimits,
    ttl: defaultTtl,
  });
}

function traffic(
  length = count,
  padding = "x".repeat(800),
): { readonly requests: readonly Buffer[]; readonly answers: readonly Buffer[] } {
  const numbers = Array.from({ length }, (_, index) => index);
  return {
    requests: numbers.map((index) => requestBytes(index, `p-${index}`, padding)),
    answers: numbers.map((index) =>
      toBytes({
        jsonrpc: "2.0",
        id: index,
        result: { content: [{ type: "text", text: padding }], isError: false },
      }),
    ),
  };
}

function requestBytes(id: string | number, progressToken: string, padding: string): Buffer {
  const params = { name: "weigh", arguments: { text: padding }, _meta: { progressToken } };
  return toBytes({ jsonrpc: "2.0", id, method: "tools/call", params });
}

function toBytes(value: unknown): Buffer {
  return Buffer.from(JSON.stringify(value));
}

function parsed(bytes: Buffer): Message {
  const outcome = parse(bytes, { revision: "2025-11-25", mode: "enforce" });
  if (!outcome.ok || outcome.form !== "single") throw new Error("the benchmark's message does not parse");
  return outcome.message;
}

function parsedRequest(bytes: Buffer): RequestMessage {
  const message = parsed(bytes);
  if (message.kind !== "request") throw new Error("the benchmark's request is none");
  return message;
}

function parsedAnswer(bytes: Buffer): Answer {
  const message = parsed(bytes);
  if (message.kind !== "result" && message.kind !== "error") throw new Error("the benchmark's answer is none");
  return message;
}

function checked<Payload>(opening: OpenResult<Payload>): OpenResult<Payload> & { ok: true } {
  if (!opening.ok) throw opening.error;
  return opening;
}

function heapBytes(): number {
  setFlagsFromString("--expose-gc");
  // The flag puts `gc` into contexts made from now on.
  (runInNewContext("gc") as () => void)();
  return process.memoryUsage().heapUsed;
}
