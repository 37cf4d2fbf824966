import type { Frame } from "../../src/recorder/contract.ts";
import type { RecordStore } from "../../src/recorder/store/store-contract.ts";
import { captureRecord } from "../../test/support/recording.ts";

/** When the recorded traffic begins. */
export const began = Date.UTC(2026, 10, 1);

const batch = 1000;

/** The run that recorded it. */
export const capture = captureRecord("bench", { format: 1, writer: "bench", startedAt: began });

/** How far apart the calls are. */
const stepMs = 800;

/** Fills a store with so many calls; with `endsAt`, the last one happens then. */
export async function fillStore(store: RecordStore, exchanges: number, endsAt?: number): Promise<void> {
  const shift = endsAt === undefined ? 0 : endsAt - began - exchanges * stepMs;
  for (let from = 0; from < exchanges; from += batch) {
    const frames: Frame[] = [];
    for (let index = from; index < Math.min(from + batch, exchanges); index++)
      frames.push(...framesOf(index).map((frame) => (shift === 0 ? frame : { ...frame, at: frame.at + shift })));
    await store.append({ capture: { ...capture, frames: (from + batch) * 4 }, frames });
  }
}

/** One call as a gateway writes it: four frames, two of them only repeat another. */
export function framesOf(index: number): readonly Frame[] {
  const exchange = `x${index.toString(36)}`;
  const target = `tool_${index % 50}`;
  const mono = index * stepMs;
  const seq = index * 4;
  const isError = index % 40 === 0;
  const text = index % 100_000 === 5 ? "needle" : "crate";
  const request = JSON.stringify({
    jsonrpc: "2.0",
    id: index,
    method: "tools/call",
    params: { name: target, arguments: { amount: index % 1000, note: `${text} number ${index}` } },
  });
  const answer = JSON.stringify({
    jsonrpc: "2.0",
    id: index,
    result: { content: [{ type: "text", text: `weighed ${index} kg` }], isError },
  });
  const common = {
    capture: capture.id,
    exchange,
    operation: exchange,
    direction: "c2s",
    id: `n:${index}`,
  } as const;
  const named = { method: "tools/call", target } as const;
  const context = {
    route: index % 3 === 0 ? "files" : "harbor",
    principal: `agent-${index % 20}`,
    session: `s${index % 500}`,
    revision: "2025-11-25",
    transport: "http",
  };
  const ends = { at: began + mono + (index % 1000), mono: mono + (index % 1000), bytes: answer.length };
  const outcome = isError ? "tool_error" : "ok";
  return [
    {
      ...common,
      ...named,
      seq: seq + 1,
      at: began + mono,
      mono,
      kind: "request",
      leg: "client",
      passing: "received",
      context,
      bytes: request.length,
      body: request,
    },
    {
      ...common,
      ...named,
      seq: seq + 2,
      at: began + mono,
      mono,
      kind: "request",
      leg: "upstream",
      passing: "sent",
      bytes: request.length,
      same: seq + 1,
    },
    {
      ...common,
      ...ends,
      seq: seq + 3,
      kind: "result",
      leg: "upstream",
      passing: "received",
      body: answer,
      outcome,
    },
    {
      ...common,
      ...ends,
      seq: seq + 4,
      kind: "result",
      leg: "client",
      passing: "sent",
      same: seq + 3,
      outcome,
    },
  ];
}
