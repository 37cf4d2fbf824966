import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { arbitraryFrames, callFrames, captureRecord, endFrame, stderrFrame } from "./recording.ts";
import { bodiesOf, createConditionMatcher } from "../../src/recorder/filter/condition.ts";
import type { CaptureRecord, FilterCondition, ExchangeRecord, Frame } from "../../src/recorder/contract.ts";
import type { CaptureLine, ExportQuery, RecordReader, RecordStore } from "../../src/recorder/store/store-contract.ts";
import { maxPackSpan } from "../../src/recorder/pack.ts";
import { deriveExchanges } from "../../src/recorder/derive.ts";

/** Opens an empty store. */
export type OpenStore = () => Promise<RecordStore>;

const some = callFrames({
  id: "a-1",
  seq: 0,
  ask: "weather in Bern",
  answer: "sunny\nand warm",
  session: "s1",
});
const open = callFrames({
  id: "a-2",
  seq: 10,
  method: "tools/list",
  target: "x",
  principal: "bob",
  ask: "50% _off_",
});
const refused = callFrames({
  id: "a-3",
  seq: 20,
  target: "delete",
  answer: "no",
  outcome: "tool_error",
  durationMs: 250,
  decision: { effect: "deny", rule: "no-deletes" },
});
const frames = [...some, ...open, ...refused];

async function withStore<T>(openStore: OpenStore, work: (store: RecordStore) => Promise<T>): Promise<T> {
  await using store = await openStore();
  return await work(store);
}

async function filled(store: RecordStore): Promise<void> {
  await store.append({ capture: sampleCapture, frames });
}

async function all<T>(items: AsyncIterable<T>): Promise<readonly T[]> {
  const list: T[] = [];
  for await (const item of items) list.push(item);
  return list;
}

async function* lines(list: readonly CaptureLine[]): AsyncGenerator<CaptureLine> {
  yield* list;
}

/** Text that no store makes smaller. */
function randomText(length: number, seed: number): string {
  let state = seed + 1;
  return Array.from({ length }, () => {
    state = (state * 48_271) % 2_147_483_647;
    return String.fromCharCode(97 + (state % 26));
  }).join("");
}

const ids = (exchanges: readonly ExchangeRecord[]): readonly string[] => exchanges.map(({ id }) => id);

const conditions: fc.Arbitrary<FilterCondition> = fc.letrec<{ one: FilterCondition }>((tie) => ({
  one: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom<FilterCondition>(
      { type: "is", field: "method", value: "tools/call" },
      { type: "is", field: "target", value: "add" },
      { type: "is", field: "state", value: "open" },
      { type: "is", field: "decision", value: "deny" },
      { type: "is", field: "capture", value: "c1" },
      { type: "like", field: "target", pattern: "F*E" },
      { type: "like", field: "rule", pattern: "r*" },
      { type: "like", field: "method", pattern: "*/_all" },
      { type: "pattern", field: "route", pattern: "^O" },
      { type: "number", field: "durationMs", is: ">", value: 150 },
      { type: "number", field: "upstreamMs", is: "<=", value: 4 },
      { type: "modified" },
      { type: "text", text: "bern", in: "any" },
      { type: "text", text: "ern", in: "any" },
      { type: "text", text: "break", in: "request" },
      { type: "text", text: "naïve x_", in: "any" },
      { type: "text", text: '"QUOTED', in: "answer" },
      { type: "text", text: "日", in: "any" },
      { type: "text", text: "%", in: "any" },
      { type: "text", text: "stra", in: "answer" },
    ),
    fc.array(tie("one"), { maxLength: 3 }).map((of): FilterCondition => ({ type: "all", of })),
    fc.array(tie("one"), { maxLength: 3 }).map((of): FilterCondition => ({ type: "any", of })),
    tie("one").map((of): FilterCondition => ({ type: "not", of })),
  ),
})).one;

/** Opens a reader of one capture. */
export type OpenReader = (capture: CaptureRecord, frames: readonly Frame[]) => Promise<RecordReader>;

const sampleCapture = captureRecord("c1", { lost: 2, redacted: 3, omitted: 1 });
const round = callFrames({ id: "b-2", seq: 30, operation: "a-1", answer: "done" });
const asked = callFrames({ id: "b-3", seq: 40, operation: "a-1", parent: "b-2", answer: "yes" });

/** What every reader of recordings promises. */
export function describeReader(name: string, openReader: OpenReader, runs = 12): void {
  describe(`reading ${name}`, () => {
    it("[SC-067] returns frames as they were recorded, and the exchanges derived from them", async () => {
      await using reader = await openReader(sampleCapture, frames);
      const stored = await reader.frames("c1", "a-1");
      const withoutRepeated = (list: readonly Frame[]) =>
        list.map(({ same, body, ...frame }) => ({ ...frame, ...(same === undefined ? { body } : { same }) }));
      expect(withoutRepeated(stored)).toEqual(withoutRepeated(some));
      expect(stored[1]?.body).toBe(some[0]?.body);
      const { exchanges } = await reader.exchanges({ order: "oldest" });
      expect(exchanges).toEqual(deriveExchanges(frames));
      expect(exchanges.map(({ state }) => state)).toEqual(["ok", "open", "tool_error"]);
    });

    it("finds exactly the exchanges that match a condition", async () => {
      await fc.assert(
        fc.asyncProperty(
          arbitraryFrames,
          fc.array(conditions, { minLength: 1, maxLength: 6 }),
          async (recorded, wanted) => {
            await using reader = await openReader(captureRecord("c1"), recorded);
            const exchanges = deriveExchanges(recorded);
            const bodies = (id: string) => bodiesOf(recorded.filter(({ exchange }) => exchange === id));
            for (const where of wanted) {
              const matches = createConditionMatcher(where);
              const expected = exchanges.filter((exchange) => matches(exchange, () => bodies(exchange.id)));
              const page = await reader.exchanges({ where, order: "oldest", limit: 1000 });
              expect(ids(page.exchanges)).toEqual(ids(expected));
            }
          },
        ),
        { numRuns: runs },
      );
    });

    it("pages in both directions without gaps", async () => {
      const many = Array.from({ length: 7 }, (_, index) =>
        callFrames({ id: `p-${index}`, seq: index * 5, at: 5000, answer: "x" }),
      );
      await using reader = await openReader(captureRecord("c1"), many.flat());
      for (const order of ["newest", "oldest"] as const) {
        const seen: string[] = [];
        let cursor: string | undefined;
        do {
          const page = await reader.exchanges({ order, limit: 3, ...(cursor === undefined ? {} : { cursor }) });
          seen.push(...ids(page.exchanges));
          cursor = page.next;
        } while (cursor !== undefined);
        const expected = many.map((_, index) => `p-${index}`);
        expect(seen).toEqual(order === "oldest" ? expected : expected.toReversed());
      }
      await expect(reader.exchanges({ cursor: "nonsense" })).rejects.toThrow("not a cursor");
    });

    it("finds an exchange by a prefix of its id, and its whole operation", async () => {
      await using reader = await openReader(sampleCapture, [...frames, ...round, ...asked]);
      expect((await reader.exchange("a-1"))?.id).toBe("a-1");
      expect((await reader.exchange("b-"))?.id).toBeUndefined();
      expect((await reader.exchange("b-2"))?.operation).toBe("a-1");
      const operation = await reader.operation("b-3");
      expect(operation).toMatchObject({ id: "a-1", rounds: 2, state: "ok" });
      expect(ids(operation?.exchanges ?? [])).toEqual(["a-1", "b-2", "b-3"]);
      expect(await reader.operation("nobody")).toBeUndefined();
    });

    it("exports everything, matching exchanges, or their whole operations", async () => {
      const recorded = [...frames, ...round, ...asked];
      await using reader = await openReader(sampleCapture, recorded);
      const exported = async (query: ExportQuery): Promise<readonly number[]> =>
        (await all(reader.export(query))).flatMap((line) => (line.type === "frame" ? [line.seq] : []));
      const numbers = (list: readonly Frame[]): readonly number[] => list.map(({ seq }) => seq);
      const where: FilterCondition = { type: "is", field: "id", value: "b-3" };
      expect(await exported({})).toEqual(numbers(recorded));
      expect(await exported({ where })).toEqual(numbers(asked));
      expect(await exported({ where, wholeOperations: true })).toEqual(numbers([...some, ...round, ...asked]));
    });

    it("[SC-068] reports what was lost, left out and redacted, in statistics and exports", async () => {
      await using reader = await openReader(sampleCapture, frames);
      const stats = await reader.stats();
      expect(stats).toMatchObject({
        captures: 1,
        exchanges: 3,
        frames: frames.length,
        lost: 2,
        redacted: 3,
        omitted: 1,
      });
      expect(stats.rows).toContainEqual({
        route: "default",
        method: "tools/call",
        target: "delete",
        count: 1,
        errors: 1,
        refused: 0,
        p50Ms: 250,
        p95Ms: 250,
        p99Ms: 250,
        maxMs: 250,
        bytes: 150,
      });
      const [head] = await all(reader.export());
      expect(head).toMatchObject({ type: "capture", format: 2, lost: 2, redacted: 3, omitted: 1 });
    });
  });
}

/** What every store of recordings promises. */
export function describeStore(name: string, openStore: OpenStore, runs = 12): void {
  describeReader(
    name,
    async (capture, recorded) => {
      const store = await openStore();
      await store.append({ capture, frames: recorded });
      // Some frames are in the text index, others are not.
      await store.index(20);
      return store;
    },
    runs,
  );

  describe(`recordings in ${name}`, () => {
    it("[SC-067] stores exactly the exchanges of its frames, however they are batched", async () => {
      await fc.assert(
        fc.asyncProperty(arbitraryFrames, fc.integer({ min: 1, max: 7 }), async (all_, size) => {
          await withStore(openStore, async (store) => {
            const capture = captureRecord("c1");
            for (let at = 0; at < all_.length; at += size)
              await store.append({ capture, frames: all_.slice(at, at + size) });
            const page = await store.exchanges({ order: "oldest", limit: 1000 });
            expect(page.exchanges).toEqual(deriveExchanges(all_));
            const exported = (await all(store.export())).filter((line) => line.type === "frame");
            expect(exported).toEqual(all_.map((frame) => ({ type: "frame", ...frame })));
          });
        }),
        { numRuns: runs },
      );
    });

    it("finds distant exchanges in order, even if the clock was set back", async () => {
      await withStore(openStore, async (store) => {
        const times = [50, 10, 40, 40, 20, 60, 30, 5];
        const list = times.map((time, index) =>
          callFrames({
            id: `far-${index}`,
            seq: index * 10_000 + 1,
            at: 1_000_000 + time,
            target: index % 4 === 0 ? "rare" : "weather",
            session: `s${index % 3}`,
            answer: "x",
          }),
        );
        const capture = captureRecord("c1");
        for (const one of list) await store.append({ capture, frames: one });
        const exchanges = deriveExchanges(list.flat()).toSorted(
          (one, other) => one.at - other.at || one.seq - other.seq,
        );
        const target: FilterCondition = { type: "is", field: "target", value: "weather" };
        const session: FilterCondition = { type: "is", field: "session", value: "s1" };
        const nobody: FilterCondition = { type: "is", field: "principal", value: "nobody" };
        const id: FilterCondition = { type: "is", field: "id", value: "far-5" };
        const wanted: readonly FilterCondition[] = [
          target,
          session,
          nobody,
          id,
          { type: "all", of: [target, session] },
          { type: "any", of: [id, session, nobody] },
          { type: "all", of: [session, { type: "not", of: target }] },
        ];
        for (const where of wanted) {
          const matches = createConditionMatcher(where);
          const expected = ids(exchanges.filter((one) => matches(one, () => bodiesOf([]))));
          for (const order of ["oldest", "newest"] as const) {
            const seen: string[] = [];
            let cursor: string | undefined;
            do {
              const page = await store.exchanges({
                where,
                order,
                limit: 2,
                ...(cursor === undefined ? {} : { cursor }),
              });
              seen.push(...ids(page.exchanges));
              cursor = page.next;
            } while (cursor !== undefined);
            expect(seen).toEqual(order === "oldest" ? expected : expected.toReversed());
          }
          const exported = (await all(store.export({ where }))).filter((line) => line.type === "exchange");
          expect(exported.map((line) => line.id).toSorted()).toEqual(expected.toSorted());
        }
      });
    });

    it("keeps callers and outcomes apart after another process deleted them all", async () => {
      await withStore(openStore, async (store) => {
        const capture = captureRecord("c1");
        const one = (id: string, seq: number, at: number) => callFrames({ id, seq, at, answer: "x" });
        await store.append({
          capture,
          frames: [...one("a", 0, 10), ...one("b", 10, 20), ...one("c", 20, 30)],
        });
        expect(await store.prune({ before: 9000 })).toMatchObject({ exchanges: 3, frames: 12 });
        const frames_ = [...one("d", 30, 10_000), ...one("e", 40, 10_001)];
        await store.append({ capture, frames: frames_ });
        const where: FilterCondition = { type: "is", field: "target", value: "weather" };
        expect((await store.exchanges({ where, order: "oldest" })).exchanges).toEqual(deriveExchanges(frames_));
      });
    });

    it("stores a batch completely or not at all, and only once", async () => {
      await withStore(openStore, async (store) => {
        const broken = {
          ...some[1],
          seq: 5,
          body: 5 as unknown as string,
          bytes: 1n as unknown as number,
        } as Frame;
        await expect(store.append({ capture: captureRecord("c1"), frames: [...some, broken] })).rejects.toThrow(
          "BigInt",
        );
        expect((await store.exchanges({})).exchanges).toEqual([]);
        await filled(store);
        await filled(store);
        expect((await store.stats()).frames).toBe(frames.length);
        expect((await store.exchanges({ order: "oldest" })).exchanges).toEqual(deriveExchanges(frames));
      });
    });

    it("adds frames to an exchange that has ended, at once or later", async () => {
      await withStore(openStore, async (store) => {
        const capture = captureRecord("c1");
        const [first] = some;
        const late = (seq: number) => ({ ...(first as Frame), seq, kind: "decision", context: undefined }) as Frame;
        await store.append({ capture, frames: [...some, late(maxPackSpan + 1)] });
        await store.append({ capture, frames: [late(maxPackSpan + 2)] });
        expect((await store.frames("c1", "a-1")).map(({ seq }) => seq)).toEqual([
          ...some.map(({ seq }) => seq),
          maxPackSpan + 1,
          maxPackSpan + 2,
        ]);
        expect(await store.prune({ before: 9_000_000 })).toMatchObject({
          exchanges: 1,
          frames: some.length + 2,
        });
        expect((await store.stats()).frames).toBe(0);
      });
    });

    it("exports captures that import into an equal store, also in part", async () => {
      const exported = await withStore(openStore, async (store) => {
        await filled(store);
        const deletes: FilterCondition = { type: "is", field: "target", value: "delete" };
        return { whole: await all(store.export()), part: await all(store.export({ where: deletes })) };
      });
      await withStore(openStore, async (store) => {
        const { warnings, ...counts } = await store.import(lines(exported.whole));
        expect(counts).toEqual({ captures: 1, frames: frames.length, exchanges: 3, known: 0 });
        expect(warnings).toEqual([]);
        expect(await all(store.export())).toEqual(exported.whole);
        expect(await store.import(lines(exported.whole))).toMatchObject({ frames: 0, known: frames.length });
      });
      await withStore(openStore, async (store) => {
        await store.import(lines(exported.part));
        expect((await store.exchanges({})).exchanges).toEqual(deriveExchanges(refused));
      });
    });

    it("warns about an import that was cut off or changed", async () => {
      await withStore(openStore, async (store) => {
        const record = captureRecord("c1");
        const [exchange] = deriveExchanges(some);
        const changed = { ...exchange, state: "error" } as ExchangeRecord;
        const { warnings } = await store.import(
          lines([
            { type: "capture", ...record },
            ...some.map((frame) => ({ type: "frame", ...frame }) as const),
            { type: "exchange", ...changed },
          ]),
        );
        expect(warnings).toEqual([expect.stringContaining("cut off"), expect.stringContaining("1 exchanges differ")]);
        expect((await store.exchange("a-1"))?.state).toBe("ok");
        await expect(store.import(lines([{ type: "frame", ...(some[0] as Frame) }]))).rejects.toThrow(
          "not in the capture",
        );
      });
    });

    it("follows exchanges from now on, when they begin and when they change", async () => {
      await withStore(openStore, async (store) => {
        await store.append({ capture: captureRecord("c1"), frames: some });
        const stop = new AbortController();
        const seen: string[] = [];
        const following = (async () => {
          const where: FilterCondition = { type: "is", field: "principal", value: "ann" };
          for await (const { id, state } of store.follow({ where, signal: stop.signal, intervalMs: 1 })) {
            seen.push(`${id} ${state}`);
            if (seen.length === 1) await store.append({ capture: captureRecord("c1"), frames: refused.slice(2) });
            if (state !== "open") stop.abort();
          }
        })();
        await store.captures();
        await store.append({ capture: captureRecord("c1"), frames: open });
        await store.append({ capture: captureRecord("c1"), frames: refused.slice(0, 2) });
        await following;
        expect(seen).toEqual(["a-3 open", "a-3 tool_error"]);
      });
    });

    it("follows the newest exchanges of a look where they are bounded, and counts those that it left out", async () => {
      await withStore(openStore, async (store) => {
        await store.append({ capture: captureRecord("c1"), frames: some });
        const stop = new AbortController();
        const [seen, omitted]: [string[], number[]] = [[], []];
        const bounds = { maxExchanges: 2, onOmitted: (count: number) => omitted.push(count) };
        const following = (async () => {
          for await (const { id } of store.follow({ signal: stop.signal, intervalMs: 1, ...bounds })) {
            seen.push(id);
            if (seen.length === 2) stop.abort();
          }
        })();
        await store.captures();
        const calls = [1, 2, 3, 4, 5].map((number) =>
          callFrames({ id: `d-${number}`, seq: 90 + number * 10, answer: "x" }),
        );
        await store.append({ capture: captureRecord("c1"), frames: calls.flat() });
        await following;
        expect({ seen, omitted }).toEqual({ seen: ["d-4", "d-5"], omitted: [3] });
      });
    });

    it.each<readonly [string, FilterCondition]>([
      ["that SQL tells exactly", { type: "is", field: "principal", value: "ann" }],
      ["that SQL does not tell exactly", { type: "like", field: "principal", pattern: "A*N" }],
      ["on texts", { type: "text", text: "needle", in: "any" }],
    ])("leaves out nothing that matches a condition %s because of what does not", async (_name, where) => {
      await withStore(openStore, async (store) => {
        const stop = new AbortController();
        const [seen, omitted]: [string[], number[]] = [[], []];
        const bounds = { maxExchanges: 2, onOmitted: (count: number) => omitted.push(count) };
        const following = (async () => {
          for await (const { id } of store.follow({ where, signal: stop.signal, intervalMs: 1, ...bounds })) {
            seen.push(id);
            if (seen.length === 2) stop.abort();
          }
        })();
        await store.captures();
        const calls = Array.from({ length: 12 }, (_, number) =>
          callFrames({
            id: `e-${number + 10}`,
            seq: 90 + number * 10,
            principal: [1, 3].includes(number) ? "ann" : "bob",
            answer: [1, 3].includes(number) ? "a needle" : "hay",
          }),
        );
        await store.append({ capture: captureRecord("c1"), frames: calls.flat() });
        await following;
        expect({ seen, omitted }).toEqual({ seen: ["e-11", "e-13"], omitted: [] });
      });
    });

    it("prunes by age, by route and by size, oldest first, and keeps open exchanges", async () => {
      await withStore(openStore, async (store) => {
        const at = (id: string, time: number, route: string, isOpen = false) =>
          callFrames({
            id,
            seq: time,
            at: 1_000_000 + time,
            route,
            ...(isOpen ? {} : { answer: "x ".repeat(2000) }),
          });
        const list = [
          at("1", 10, "one"),
          at("2", 20, "two"),
          at("3", 30, "one", true),
          at("4", 40, "one"),
          at("5", 50, "two"),
        ];
        await store.append({ capture: captureRecord("c1"), frames: list.flat() });
        await store.index(1000);
        const first = await store.prune({ before: 1_000_045, beforeByRoute: { two: 1_000_015 } });
        expect(first).toMatchObject({ exchanges: 2, frames: 8 });
        expect(ids((await store.exchanges({ order: "oldest" })).exchanges)).toEqual(["2", "3", "5"]);
        expect((await store.exchanges({ where: { type: "text", text: "x", in: "any" } })).exchanges).toHaveLength(2);
        await store.prune({ maxBytes: 1 });
        expect(ids((await store.exchanges({})).exchanges)).toEqual(["3"]);
      });
    });

    it("prunes by size no more than it must, also where the first exchanges take much less than the rest", async () => {
      await withStore(openStore, async (store) => {
        const sizes = [...Array.from({ length: 8 }, () => 10), ...Array.from({ length: 24 }, () => 100_000)];
        const calls = sizes.map((size, index) =>
          callFrames({ id: `e-${index}`, seq: index * 10, answer: randomText(size, index) }),
        );
        for (const call of calls) await store.append({ capture: captureRecord("c1"), frames: call });
        const left = async () =>
          (await store.exchanges({ order: "oldest", limit: 100 })).exchanges.map(({ seq }) => seq);
        for (const { maxBytes, atLeast, atMost } of [
          { maxBytes: 1_500_000, atLeast: 10, atMost: 15 },
          // The room of what was deleted is not taken for recordings.
          { maxBytes: 1_500_000, atLeast: 10, atMost: 15 },
          { maxBytes: 1_000_000, atLeast: 4, atMost: 10 },
        ]) {
          await store.prune({ maxBytes });
          const kept = await left();
          expect(kept.length).toBeGreaterThanOrEqual(atLeast);
          expect(kept.length).toBeLessThanOrEqual(atMost);
          expect(kept.at(-1)).toBe(310);
        }
      });
    });

    it("prunes frames that belong to no exchange, by age and by size", async () => {
      await withStore(openStore, async (store) => {
        const output = Array.from({ length: 40 }, (_, index) => stderrFrame(index * 10, randomText(50_000, index)));
        for (const line of output) await store.append({ capture: captureRecord("c1"), frames: [line] });
        await store.append({ capture: captureRecord("c1"), frames: callFrames({ id: "e", seq: 500, answer: "x" }) });
        const kept = async () => (await store.stats()).frames - 4;
        expect(await kept()).toBe(40);
        await store.prune({ before: 1_000_100, where: { type: "is", field: "route", value: "default" } });
        expect(await kept()).toBe(40);
        await store.prune({ before: 1_000_100 });
        expect(await kept()).toBe(30);
        await store.prune({ maxBytes: 1_000_000 });
        expect(await kept()).toBeGreaterThan(5);
        expect(await kept()).toBeLessThan(20);
        expect(ids((await store.exchanges({})).exchanges)).toEqual(["e"]);
      });
    });

    it("deletes a capture that ended and has no exchanges left", async () => {
      await withStore(openStore, async (store) => {
        await store.append({
          capture: captureRecord("c1", { endedAt: 2_000_000 }),
          frames: [...frames, endFrame(99)],
        });
        expect((await store.exchange("a-2"))?.state).toBe("abandoned");
        const where: FilterCondition = { type: "is", field: "principal", value: "ann" };
        await store.prune({ before: 9_000_000, where });
        expect(ids((await store.exchanges({})).exchanges)).toEqual(["a-2"]);
        await store.prune({ before: 9_000_000 });
        expect(await store.captures()).toEqual([]);
        expect((await store.stats()).frames).toBe(0);
      });
    });
  });
}
