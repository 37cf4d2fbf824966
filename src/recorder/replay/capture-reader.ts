import { GatewayError } from "../../errors.ts";
import { bodiesOf, createConditionMatcher } from "../condition.ts";
import {
  captureFormat,
  type CaptureRecord,
  type FilterCondition,
  type ExchangeRecord,
  type Frame,
} from "../contract.ts";
import { type CaptureLine, type ExportQuery, type RecordReader } from "../store-contract.ts";
import { deriveExchanges, deriveOperation } from "../derive.ts";
import { statsRows } from "./stats-rows.ts";

const everything: FilterCondition = { type: "all", of: [] };

interface HeldExchange {
  readonly record: ExchangeRecord;
  readonly frames: readonly Frame[];
}

/** Reads a capture that is held in memory, such as a file, as any store is read. */
export async function createCaptureReader(
  lines: AsyncIterable<CaptureLine> | Iterable<CaptureLine>,
  place: string,
): Promise<RecordReader> {
  const captures: CaptureRecord[] = [];
  const frames = new Map<string, Frame[]>();
  for await (const line of lines) {
    if (line.type === "capture") {
      const { type: _type, ...record } = line;
      captures.push(record);
    } else if (line.type === "frame") {
      const { type: _type, ...frame } = line;
      const own = frames.get(frame.capture);
      if (own === undefined) frames.set(frame.capture, [frame]);
      else own.push(frame);
    }
  }
  const held = indexExchanges(frames);

  function select(where: FilterCondition = everything): readonly HeldExchange[] {
    const matches = createConditionMatcher(where);
    return held.filter(({ record, frames: own }) => matches(record, () => bodiesOf(own)));
  }

  function find(id: string): HeldExchange | undefined {
    const exact = held.find(({ record }) => record.id === id);
    if (exact !== undefined) return exact;
    const found = held.filter(({ record }) => record.id.startsWith(id));
    return found.length === 1 ? found[0] : undefined;
  }

  async function* exported({
    where,
    wholeOperations,
    onProgress,
  }: ExportQuery = {}): AsyncIterable<CaptureLine> {
    const chosen = select(where);
    const operations = new Set(chosen.map(({ record }) => `${record.capture} ${record.operation}`));
    const all =
      wholeOperations === true
        ? held.filter(({ record }) => operations.has(`${record.capture} ${record.operation}`))
        : chosen;
    let done = 0;
    for (const capture of captures) {
      const own = all.filter(({ record }) => record.capture === capture.id);
      const kept = new Set(own.map(({ record }) => record.id));
      yield { type: "capture", ...capture };
      const wanted = (frames.get(capture.id) ?? []).filter(
        ({ exchange }) => where === undefined || kept.has(exchange),
      );
      for (const frame of wanted) yield { type: "frame", ...frame };
      for (const { record } of own) yield { type: "exchange", ...record };
      done += own.length;
      onProgress?.(done, all.length);
      yield { type: "end", capture: capture.id, frames: wanted.length, exchanges: own.length };
    }
  }

  const close = async (): Promise<void> => {};
  return {
    format: captureFormat,
    location: place,
    captures: async () => captures,
    exchanges: async ({ where, order = "newest", limit = 50, cursor }) => {
      const from = cursor === undefined ? 0 : Number(cursor);
      if (!Number.isSafeInteger(from))
        throw new GatewayError("store_failed", `\`${cursor ?? ""}\` is no cursor`);
      const all = select(where).map(({ record }) => record);
      const ordered = order === "newest" ? all.toReversed() : all;
      const page = ordered.slice(from, from + Math.min(limit, 1000));
      const next = from + page.length;
      return { exchanges: page, ...(next < ordered.length ? { next: String(next) } : {}) };
    },
    exchange: async (id) => find(id)?.record,
    operation: async (id) => {
      const start = find(id)?.record;
      if (start === undefined) return undefined;
      const { capture, operation } = start;
      const own = held.filter(({ record }) => record.capture === capture && record.operation === operation);
      return deriveOperation(own.map(({ record }) => record));
    },
    frames: async (capture, exchange) =>
      fillRepeated(
        held.find(({ record }) => record.capture === capture && record.id === exchange)?.frames ?? [],
      ),
    // A file does not go on.
    follow: async function* () {},
    stats: async (where) => {
      const chosen = select(where).map(({ record }) => record);
      const sum = (read: (capture: CaptureRecord) => number): number =>
        captures.reduce((total, capture) => total + read(capture), 0);
      return {
        format: captureFormat,
        location: place,
        captures: captures.length,
        exchanges: chosen.length,
        frames: [...frames.values()].reduce((total, own) => total + own.length, 0),
        bytes: sum(({ bytes }) => bytes),
        lost: sum(({ lost }) => lost),
        omitted: sum(({ omitted }) => omitted),
        redacted: sum(({ redacted }) => redacted),
        ...(chosen[0] === undefined
          ? {}
          : { oldest: chosen[0].at, newest: chosen.at(-1)?.at ?? chosen[0].at }),
        unindexed: 0,
        rows: statsRows(chosen),
      };
    },
    export: exported,
    document: async () => undefined,
    documents: async () => [],
    close,
    [Symbol.asyncDispose]: close,
  };
}

/** The exchanges of all captures with their frames, in the order in which they began. */
function indexExchanges(frames: ReadonlyMap<string, readonly Frame[]>): readonly HeldExchange[] {
  const all: HeldExchange[] = [];
  for (const own of frames.values()) {
    const byExchange = Map.groupBy(own, ({ exchange }) => exchange);
    for (const record of deriveExchanges(own)) all.push({ record, frames: byExchange.get(record.id) ?? [] });
  }
  return all.toSorted(
    ({ record: a }, { record: b }) =>
      a.at - b.at || (a.capture < b.capture ? -1 : a.capture > b.capture ? 1 : a.seq - b.seq),
  );
}

/** Frames with every body that repeats another filled in. */
function fillRepeated(frames: readonly Frame[]): readonly Frame[] {
  const bodies = new Map(
    frames.flatMap(({ seq, body }) => (body === undefined ? [] : [[seq, body] as const])),
  );
  return frames.map((frame) => {
    const body = frame.same === undefined ? undefined : bodies.get(frame.same);
    return body === undefined || frame.body !== undefined ? frame : { ...frame, body };
  });
}
