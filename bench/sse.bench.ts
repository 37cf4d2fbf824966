import { createParser } from "eventsource-parser";
import { createLineReader } from "../src/protocol/line-framing.ts";
import { createSseDecoder } from "../src/protocol/sse/decoder.ts";
import { encodeSseMessage } from "../src/protocol/sse/encoder.ts";
import type { SseEvent } from "../src/protocol/sse/event.ts";
import { measure, median, speedup } from "./measure.ts";
import type { BenchRow } from "./row.ts";

interface Stream {
  readonly name: string;
  readonly chunks: readonly Buffer[];
  readonly events: number;
}

/** What becomes of each event; the sum of the answers is checked, so that no work can be left out. */
interface Use {
  readonly name: string;
  readonly ours: (event: SseEvent) => number;
  readonly theirs: (event: { readonly data: string; readonly event?: string | undefined }) => number;
}

const rival = "eventsource-parser behind a TextDecoder";

/** Events only: what it takes to find them. Both leave the data where it is until somebody asks. */
const framing: Use = {
  name: "events",
  ours: (event) => (event.kind === "data" ? 1 : 0) + (event.event?.length ?? 0),
  theirs: (event) => (event.data.length > 0 ? 1 : 0) + (event.event?.length ?? 0),
};
/** The data as bytes, which is what the message parser scans. */
const bytes: Use = {
  name: "data as bytes",
  ours: (event) => event.data.length + (event.data[0] ?? 0),
  theirs: (event) => {
    const data = Buffer.from(event.data);
    return data.length + (data[0] ?? 0);
  },
};
/** Each its own way: a view of the chunk, which costs a small object, against a slice of the decoded text. */
const view: Use = {
  name: "data as a view, theirs as text",
  ours: (event) => event.data.length,
  theirs: (event) => event.data.length,
};

/** Decoding, encoding and framing of event streams and lines, against other ways to do the same. */
export async function run(): Promise<BenchRow[]> {
  const rows: BenchRow[] = [];
  const small = { bytes: 200, events: 5000 };
  const large = { bytes: 65_000, events: 60 };
  const streams = {
    smallIn16: cutStream("200 B in 16 KB chunks", small, 16_384),
    smallIn64: cutStream("200 B in 64 KB chunks", small, 65_536),
    smallWhole: wholeStream("200 B, chunks of whole events", small),
    smallIds: cutStream("200 B with ids and CR LF in 16 KB chunks", { ...small, ids: true, lineEnd: "\r\n" }, 16_384),
    largeIn16: cutStream("64 KB in 16 KB chunks", large, 16_384),
    largeIn64: cutStream("64 KB in 64 KB chunks", large, 65_536),
    largeWhole: cutStream("64 KB, a chunk each", large, large.bytes),
    huge: cutStream("4 MB in 1 KB chunks", { bytes: 4_194_304, events: 1 }, 1024),
    drips: cutStream("200 B, one byte a chunk", { bytes: 200, events: 100 }, 1),
  };
  for (const stream of [streams.smallIn16, streams.smallIn64, streams.smallWhole, streams.smallIds]) {
    rows.push(...(await compare(stream, framing, 1)));
  }
  for (const stream of Object.values(streams)) {
    // One byte a chunk is nobody's traffic: it only has to stay linear, see below.
    rows.push(...(await compare(stream, bytes, stream === streams.drips ? undefined : 1)));
  }
  // Without bounds: it compares different things, and with large events mostly the two ways to get memory.
  for (const stream of [streams.smallIn16, streams.smallWhole, streams.largeIn16, streams.largeIn64]) {
    rows.push(...(await compare(stream, view)));
  }
  rows.push(...(await growth()), ...(await encoding()));
  return rows;
}

async function compare(stream: Stream, use: Use, min?: number): Promise<BenchRow[]> {
  const ours = () => {
    let sum = 0;
    const onEvent = (event: SseEvent) => {
      sum += use.ours(event);
    };
    const decoder = createSseDecoder({ maxEventBytes: 10_000_000, onEvent });
    for (const chunk of stream.chunks) decoder.push(chunk);
    decoder.end();
    return sum;
  };
  const theirs = () => {
    let sum = 0;
    const text = new TextDecoder();
    const parser = createParser({
      onEvent: (event) => {
        sum += use.theirs(event);
      },
    });
    for (const chunk of stream.chunks) parser.feed(text.decode(chunk, { stream: true }));
    return sum;
  };
  const expected = theirs();
  if (ours() !== expected) throw new Error(`the decoders disagree about ${stream.name}`);
  const times = repeats(theirs);
  const costs = await measure([
    { name: "ours", run: repeat(times, ours) },
    { name: "theirs", run: repeat(times, theirs) },
  ]);
  const own = costs.get("ours");
  const other = costs.get("theirs");
  const perEvent = (cpu: readonly number[] = []) => (median(cpu) * 1e3) / (times * stream.events);
  const name = `SSE decoding, ${stream.name}, ${use.name}`;
  const note = `${rival}: ${perEvent(other?.cpuMicros).toFixed(0)} ns/event; GC ${median(own?.gcMs ?? []).toFixed(1)} ms of ${median(own?.wallMs ?? []).toFixed(0)} ms`;
  return [
    { name, value: perEvent(own?.cpuMicros), unit: "CPU ns/event", note },
    {
      name: `${name}, speedup`,
      value: speedup(own, other),
      unit: `x ${rival}`,
      ...(min !== undefined && { threshold: { min } }),
    },
  ];
}

/** Four times the bytes cost four times the work, give or take the caches, and not sixteen times. */
async function growth(): Promise<BenchRow[]> {
  const rows: BenchRow[] = [];
  for (const [piece, size] of [
    [1024, 262_144],
    [1, 32_768],
  ] as const) {
    const inPieces = (length: number, head: string, end: string) =>
      cut(Buffer.concat([Buffer.from(head), Buffer.alloc(length, 0x61), Buffer.from(end)]), piece);
    const subjects = [
      {
        name: "one event",
        head: "data: ",
        end: "\n\n",
        make: () => createSseDecoder({ maxEventBytes: 1e8, onEvent: count }),
      },
      {
        name: "one line",
        head: "",
        end: "\n",
        make: () => createLineReader({ maxLineBytes: 1e8, onLine: count }),
      },
    ];
    for (const { name, head, end, make } of subjects) {
      const [once, four] = [inPieces(size, head, end), inPieces(size * 4, head, end)];
      const push = (chunks: readonly Buffer[]) => () => {
        const reader = make();
        for (const chunk of chunks) reader.push(chunk);
        return 1;
      };
      const times = repeats(push(four));
      const costs = await measure([
        { name: "four", run: repeat(times, push(four)) },
        { name: "once", run: repeat(times, push(once)) },
      ]);
      rows.push({
        name: `cost of ${name} of ${(size * 4) / 1024} KB in pieces of ${piece} B, against a quarter of it`,
        value: speedup(costs.get("once"), costs.get("four")),
        unit: "x",
        threshold: { max: 10 },
      });
    }
  }
  return rows;
}

async function encoding(): Promise<BenchRow[]> {
  const message = Buffer.from(JSON.stringify({ jsonrpc: "2.0", id: 1, result: { text: "x".repeat(960) } }));
  const [head, tail] = [Buffer.from("event: message\ndata: "), Buffer.from("\n\n")];
  const ours = () => encodeSseMessage(message).length;
  const theirs = () => Buffer.concat([head, message, tail]).length;
  const times = repeats(ours);
  const costs = await measure([
    { name: "ours", run: repeat(times, ours) },
    { name: "concat", run: repeat(times, theirs) },
  ]);
  const perEvent = (name: string) => (median(costs.get(name)?.cpuMicros ?? []) * 1e3) / times;
  const note = `Buffer.concat, which does not look for line breaks: ${perEvent("concat").toFixed(0)} ns`;
  return [{ name: "SSE encoding, 1 KB message", value: perEvent("ours"), unit: "CPU ns/event", note }];
}

let counted = 0;
function count(): void {
  counted += 1;
}

/** How often to do the work in one round, for it to take some 60 ms of processor time once the compiler has settled. */
function repeats(work: () => number): number {
  const timesIn60Ms = () => {
    let times = 0;
    const start = process.cpuUsage();
    do {
      counted += work();
      times += 1;
    } while (process.cpuUsage(start).user < 60_000);
    return times;
  };
  timesIn60Ms();
  return timesIn60Ms();
}

function repeat(times: number, work: () => number): () => void {
  return () => {
    for (let i = 0; i < times; i += 1) counted += work();
  };
}

interface Shape {
  readonly bytes: number;
  readonly events: number;
  readonly ids?: boolean;
  readonly lineEnd?: string;
}

function cutStream(name: string, shape: Shape, chunk: number): Stream {
  return { name, chunks: cut(Buffer.concat(eventBlocks(shape)), chunk), events: shape.events };
}

/** As a server's writes arrive: no event is cut. */
function wholeStream(name: string, shape: Shape): Stream {
  const blocks = eventBlocks(shape);
  const perChunk = Math.floor(16_384 / shape.bytes);
  const chunks = Array.from({ length: Math.ceil(blocks.length / perChunk) }, (_, i) =>
    Buffer.concat(blocks.slice(i * perChunk, (i + 1) * perChunk)),
  );
  return { name, chunks, events: shape.events };
}

function eventBlocks({ bytes: size, events, ids = false, lineEnd = "\n" }: Shape): Buffer[] {
  return Array.from({ length: events }, (_, i) => {
    const head = `event: message${lineEnd}${ids ? `id: stream-1_${i}${lineEnd}` : ""}`;
    const open = `data: {"jsonrpc":"2.0","id":${i},"result":{"text":"`;
    const close = `"}}${lineEnd}${lineEnd}`;
    return Buffer.from(`${head}${open}${"x".repeat(size - head.length - open.length - close.length)}${close}`);
  });
}

function cut(whole: Buffer, size: number): Buffer[] {
  return Array.from({ length: Math.ceil(whole.length / size) }, (_, i) => whole.subarray(i * size, (i + 1) * size));
}
