import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { metadataOf, parse } from "../src/protocol/index.ts";
import { measure, median } from "./measure.ts";
import type { Cost } from "./measure.ts";
import type { BenchRow } from "./row.ts";

interface Shape {
  readonly name: string;
  readonly text: string;
  readonly repeats: number;
  readonly limits: readonly { readonly contender: string; readonly max?: number }[];
}

const context = { revision: "2026-07-28", mode: "enforce" } as const;

/**
 * Parse, classify and metadata, from the bytes of the wire, against `JSON.parse` of the same text, which is given to it
 * as a ready string: decoding the bytes is not counted against it. The duplicate-key guard is always on. "Guard and
 * values" also builds every value of the message, as nothing in the gateway does.
 */
export async function run(): Promise<BenchRow[]> {
  const rows: BenchRow[] = [];
  for (const shape of shapes()) {
    const text = Buffer.from(shape.text).toString();
    const bytes = Buffer.from(shape.text);
    const repeat = (work: () => unknown) => () => {
      for (let i = 0; i < shape.repeats; i++) work();
    };
    const guarded = () => {
      const outcome = parse(bytes, context);
      if (!outcome.ok || outcome.form !== "single") throw new Error("the benchmark's message does not parse");
      return metadataOf(outcome.message);
    };
    const costs = await measure([
      { name: "JSON.parse", run: repeat(() => JSON.parse(text) as unknown) },
      { name: "guard", run: repeat(guarded) },
      {
        name: "guard and values",
        run: repeat(() => [guarded(), JSON.parse(text) as unknown]),
      },
    ]);
    for (const { contender, max } of shape.limits) {
      const value = ratio(costs.get(contender), costs.get("JSON.parse"));
      const micros = (median(costs.get(contender)?.cpuMicros ?? []) / shape.repeats).toFixed(2);
      rows.push({
        name: `${shape.name}: ${contender}`,
        value,
        unit: "× JSON.parse",
        ...(max === undefined ? {} : { threshold: { max } }),
        note: `${micros} µs CPU a message`,
      });
    }
  }
  return rows;
}

function ratio(ours: Cost | undefined, theirs: Cost | undefined): number {
  const their = theirs?.cpuMicros ?? [];
  return median((ours?.cpuMicros ?? []).map((cpu, round) => cpu / (their[round] ?? Number.NaN)));
}

function shapes(): readonly Shape[] {
  // 1.8 is the bound without the guard and 2.5 the one with it; there is one parser, so the stricter bound holds.
  const small = [{ contender: "guard", max: 1.8 }, { contender: "guard and values" }];
  const large = [{ contender: "guard", max: 1 }];
  const million = 1 << 20;
  return [
    { name: "1 KB tools/call", text: smallCall(), repeats: 20_000, limits: small },
    { name: "1 MB, one long string", text: call({ text: "x".repeat(million) }), repeats: 20, limits: large },
    {
      name: "1 MB, escaped text (our own sources)",
      text: call({ text: sources(million) }),
      repeats: 20,
      limits: large,
    },
    { name: "1 MB, many small objects", text: call({ rows: rowsOf(13_000) }), repeats: 10, limits: large },
  ];
}

function call(values: unknown): string {
  const meta = {
    progressToken: "p-1",
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": { elicitation: {} },
    "io.modelcontextprotocol/clientInfo": { name: "kite", version: "0.3.0" },
    traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  };
  const params = { name: "search_documents", arguments: values, _meta: meta };
  return JSON.stringify({ jsonrpc: "2.0", id: 7, method: "tools/call", params });
}

function smallCall(): string {
  return call({
    query: "harbor regulations for berth allocation",
    limit: 25,
    filters: {
      yard: "north",
      kind: ["container", "bulk"],
      since: "2026-01-01T00:00:00Z",
      tags: ["a", "b", "c"],
    },
    note: "Only rules that are in force, newest first. ".repeat(8),
    rows: [1, 2, 3, 4.5, 6, 7],
    nested: { a: { b: { c: true, d: null } } },
  });
}

function rowsOf(count: number): unknown[] {
  return Array.from({ length: count }, (_, index) => ({
    id: index,
    name: `crate ${index}`,
    ok: index % 2 === 0,
    place: { x: index / 7, y: [index, null] },
  }));
}

/** Real text with real escapes: the source files of the parser, over and over. */
function sources(length: number): string {
  const folder = join(import.meta.dirname, "../src/protocol");
  const files = readdirSync(folder).filter((file) => file.endsWith(".ts"));
  const text = files.map((file) => readFileSync(join(folder, file), "utf8")).join("");
  return text.repeat(Math.ceil(length / text.length)).slice(0, length);
}
