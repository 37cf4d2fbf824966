import fc from "fast-check";
import { describe, expect, it } from "vitest";

import type { Exchange } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { errorMessage } from "../../core/reply.ts";
import { GatewayError } from "../../errors.ts";
import { createProcessSeals } from "../../lib/keys/sealing.ts";
import { idFrom } from "../../protocol/message.ts";
import { exchangeWith } from "../../../test/support/exchange.ts";
import { createFakeTime, type FakeTime, settled } from "../../../test/support/fake-time.ts";
import { requestOf, resultOf } from "../../../test/support/messages.ts";
import { AdvertisedNames } from "../names/advertised-names.ts";
import { Catalogue } from "./catalogue.ts";
import { createEntryReader } from "./catalogue-entries.ts";
import { createListCursors } from "./list-cursor.ts";
import { listFacts } from "../names/list-facts.ts";
import { type FilledPage, ListFiller } from "./list-filler.ts";
import type { ListingOptions, MemberOptions } from "../names/member-options.ts";
import { UriOwners } from "../names/uri-owners.ts";

const facts = listFacts("tools/list");
const exchange: Exchange = exchangeWith(requestOf("tools/list"));
const cursors = createListCursors(createProcessSeals().cursor);

/** Answers a request for a page; `cursor` is the member's own. */
type Answer = (cursor: string | undefined) => Promise<Reply>;

const page = (names: readonly string[], nextCursor?: string, more: object = {}): Reply => ({
  message: resultOf({ tools: names.map((name) => ({ name, inputSchema: {} })), nextCursor, ...more }),
});

/** A member that has these pages, with cursors that say nothing, in some length. */
function paged(pages: readonly (readonly string[])[], cursorLength = 0): Answer {
  return async (cursor) => {
    const index = cursor === undefined ? 0 : Number(cursor.slice(1));
    const next = `c${String(index + 1).padStart(cursorLength - 1, "0")}`;
    return page(pages[index] ?? [], index + 1 < pages.length ? next : undefined);
  };
}

const failing =
  (reason: string): Answer =>
  async () =>
    Promise.reject(new GatewayError("upstream_unreachable", reason));
const erring =
  (code: number, message = "no"): Answer =>
  async () => ({ message: errorMessage(idFrom(1), { code, message }) });

interface Made {
  readonly filler: ListFiller;
  readonly names: AdvertisedNames;
  readonly time: FakeTime;
  readonly catalogues: ReadonlyMap<string, Catalogue>;
}

function make(
  answers: Readonly<Record<string, Answer>>,
  listing: Partial<ListingOptions> = {},
  more: Readonly<Record<string, Partial<MemberOptions>>> = {},
  freshMs = 0,
): Made {
  const time = createFakeTime();
  const members = Object.keys(answers).map((name): MemberOptions => ({
    name,
    prefix: name,
    title: name,
    allowedTools: undefined,
    uris: "keep",
    required: false,
    ...more[name],
  }));
  const names = new AdvertisedNames({ members, separator: "__", nameLength: 64 });
  const uris = new UriOwners(members);
  const catalogues = new Map(
    members.map((member) => [
      member.name,
      new Catalogue({
        clock: time.clock,
        reader: createEntryReader(member, names, uris),
        ask: async (_exchange, _method, cursor) => answers[member.name]?.(cursor) ?? { message: undefined },
        freshness: () => freshMs,
      }),
    ]),
  );
  const filler = new ListFiller({
    options: { members, listing: { wait: 3000, stale: 600_000, page: 1000, partial: "allow", ...listing } },
    names,
    uris,
    clock: time.clock,
    setTimer: time.setTimer,
    shownTo: () => () => true,
    catalogueOf: ({ name }) => {
      const catalogue = catalogues.get(name);
      if (catalogue === undefined) throw new TypeError(name);
      return catalogue;
    },
  });
  return { filler, names, time, catalogues };
}

const shown = ({ entries }: FilledPage): readonly string[] => entries.map(({ advertised }) => advertised);

/** Reads a list as a client does, page by page, through sealed cursors. */
async function readPages(filler: ListFiller): Promise<readonly FilledPage[]> {
  const pages: FilledPage[] = [];
  let cursor: string | undefined;
  do {
    const place = cursor === undefined ? undefined : cursors.read(exchange, "tools/list", cursor);
    const filled: FilledPage = await filler.fill(exchange, facts, place);
    pages.push(filled);
    cursor = filled.next === undefined ? undefined : cursors.write(exchange, "tools/list", filled.next);
  } while (cursor !== undefined);
  return pages;
}

describe("a list of several servers", () => {
  it("is what all have, in order and once each, however it is split into servers and pages", async () => {
    const pages = fc.array(fc.nat(5), { maxLength: 6 });
    const catalogue = fc.array(pages, { minLength: 1, maxLength: 6 });
    await fc.assert(
      fc.asyncProperty(catalogue, fc.integer({ min: 1, max: 12 }), fc.boolean(), async (sizes, size, isBare) => {
        let count = 0;
        const split = sizes.map((own) => own.map((length) => Array.from({ length }, () => `tool_${count++}`)));
        // Some servers have cursors of several kilobytes.
        const answers = Object.fromEntries(split.map((own, index) => [`m${index}`, paged(own, (index % 3) * 8192)]));
        const bare = Object.fromEntries(Object.keys(answers).map((name) => [name, { prefix: "" }]));
        const { filler } = make(answers, { page: size }, isBare ? bare : {});
        const read = await readPages(filler);
        const all = split.flatMap((own, index) => own.flat().map((name) => (isBare ? name : `m${index}__${name}`)));
        expect(read.flatMap(shown)).toEqual(all);
        expect(read.flatMap(({ degraded }) => degraded)).toEqual([]);
        // Pages are full, except the last one and those behind many empty ones.
        for (const one of read.slice(0, -1)) expect(one.entries).toHaveLength(size);
      }),
    );
  });

  it("has a name once that its server lists twice, and loses none for it, whatever the pages", async () => {
    const pages = fc.array(fc.array(fc.nat(6), { maxLength: 5 }), { minLength: 1, maxLength: 5 });
    await fc.assert(
      fc.asyncProperty(pages, fc.constantFrom(1, 3, 1000), async (numbers, size) => {
        // A page without any news would be the end: a server that repeats itself under new cursors never ends.
        const named = numbers.map((own, index) => [...own.map((number) => `t${number}`), `new${index}`]);
        const { filler } = make({ twice: paged(named), other: paged([["x"]]) }, { page: size });
        const read = (await readPages(filler)).flatMap(shown);
        expect(new Set(read)).toEqual(new Set([...named.flat().map((name) => `twice__${name}`), "other__x"]));
        // Two of our pages are read apart, so that a name can be in both.
        if (size === 1000 || named.length === 1) expect(new Set(read).size).toBe(read.length);
      }),
    );
  });

  it("fits into one page for clients that read no more, with ten thousand tools in a hundred pages beside it", async () => {
    const many = Array.from({ length: 100 }, (_, index) => Array.from({ length: 100 }, (__, at) => `t${index}_${at}`));
    const { filler } = make({ small: paged([["a"], ["b"]]), many: paged(many) });
    const first = await filler.fill(exchange, facts, undefined);
    expect(first.entries).toHaveLength(1000);
    expect(shown(first).slice(0, 3)).toEqual(["small__a", "small__b", "many__t0_0"]);
    expect((await readPages(filler)).flatMap(shown)).toHaveLength(10_002);
  });

  const faults: readonly [string, Answer, readonly string[], string][] = [
    ["is unreachable", failing("connection refused"), [], "connection refused"],
    ["answers 429", failing("the upstream answered 429"), [], "the upstream answered 429"],
    ["answers an error", erring(-32603, "broken"), [], "the server answered error -32603"],
    ["never answers", () => new Promise(() => {}), [], "the server did not answer in time"],
    ["repeats its cursor", async () => page(["x"], "same"), ["bad__x"], "the server's cursor does not advance"],
    [
      "makes up cursors for the same page",
      async (cursor) => page(["x"], `${cursor ?? ""}+`),
      ["bad__x"],
      "the server's cursor does not advance",
    ],
    [
      "goes round in circles",
      async (cursor) => page([cursor ?? "0"], cursor === undefined ? "a" : cursor === "a" ? "b" : "a"),
      ["bad__0", "bad__a", "bad__b"],
      "the server's cursor does not advance",
    ],
    [
      "makes up cursors for empty pages",
      async (cursor) => page([], `${cursor ?? ""}+`),
      [],
      "the server's cursor does not advance",
    ],
    [
      "sends a cursor without end",
      async () => page(["x"], "c".repeat(20_000)),
      ["bad__x"],
      "the server's cursor is longer than 16384 characters",
    ],
    [
      "refuses its own cursor",
      async (cursor) =>
        cursor === undefined
          ? page(["x"], "next")
          : { message: errorMessage(idFrom(1), { code: -32602, message: "bad" }) },
      ["bad__x"],
      "the server refuses its own cursor",
    ],
  ];
  it.each(faults)("goes on with the others and says so where one of 3 to 20 %s", async (_what, answer, own, reason) => {
    for (let size = 3; size <= 20; size++) {
      const place = size % 3 === 0 ? 0 : size % 3 === 1 ? size - 1 : Math.floor(size / 2);
      const members = Array.from({ length: size }, (_, index) =>
        index === place ? (["bad", answer] as const) : ([`m${index}`, paged([["a"], ["b", "c"]])] as const),
      );
      const { filler, time } = make(Object.fromEntries(members));
      const filling = filler.fill(exchange, facts, undefined);
      await settled();
      await time.advance(3000);
      const filled = await filling;
      const expected = members.map(([name]) => (name === "bad" ? own : ["a", "b", "c"].map((t) => `${name}__${t}`)));
      expect(shown(filled)).toEqual(expected.flat());
      const since = expect.stringMatching(/^2026-01-01T00:00:0[03]\.000Z$/u) as string;
      expect(filled.degraded).toEqual([{ upstream: "bad", reason, since, stale: false }]);
      expect(filled.next).toBeUndefined();
    }
  });

  it.each<[string, Answer, number]>([
    ["repeats its cursor", async () => page([], "same"), 2],
    ["goes round in circles", async (cursor) => page([], cursor === "a" ? "b" : "a"), 3],
    ["makes up cursors without end", async (cursor) => page([], `${cursor ?? ""}+`), 100],
    ["makes up tools without end", async (cursor = "") => page([`t${cursor}`], `${cursor}+`), 100],
  ])("asks a server that %s a bounded number of times, for each page and in all", async (_what, answer, most) => {
    let asked = 0;
    const bad: Answer = (cursor) => {
      asked++;
      return answer(cursor);
    };
    const { filler } = make({ bad, good: paged([["a"]]) });
    await filler.fill(exchange, facts, undefined);
    expect(asked).toBe(most);
    asked = 0;
    const pages = await readPages(filler);
    expect(asked).toBeLessThanOrEqual(1001);
    expect(pages.flatMap(shown).at(-1)).toBe("good__a");
    expect(pages.at(-1)?.degraded).toMatchObject([{ upstream: "bad", reason: "the server's cursor does not advance" }]);
  });

  it("says since when it has lacked a server, until it is complete again", async () => {
    let isDown = false;
    const { filler, time } = make({
      a: async (cursor) => (isDown ? failing("down")(cursor) : page(["x"])),
      b: paged([["y"]]),
    });
    const sinceNow = async (): Promise<string | undefined> =>
      (await filler.fill(exchange, facts, undefined)).degraded[0]?.since;
    expect(await sinceNow()).toBeUndefined();
    isDown = true;
    await time.advance(1000);
    expect(await sinceNow()).toBe("2026-01-01T00:00:01.000Z");
    await time.advance(1000);
    expect(await sinceNow()).toBe("2026-01-01T00:00:01.000Z");
    isDown = false;
    expect(await sinceNow()).toBeUndefined();
    isDown = true;
    expect(await sinceNow()).toBe("2026-01-01T00:00:02.000Z");
  });

  it("is read for unknown names once in a while, however many are asked for, and again after a change", async () => {
    let asked = 0;
    const counted: Answer = async (cursor) => {
      asked++;
      return paged([["x"], ["y"]])(cursor);
    };
    const endless: Answer = async (cursor) => {
      asked++;
      return page([`t${asked}`], `${cursor ?? ""}+`);
    };
    const { filler, time, catalogues } = make({ a: counted, b: counted, c: endless, d: failing("down") });
    const lookUp = async (): Promise<number> => {
      asked = 0;
      const many = Array.from({ length: 50 }, () => filler.lookUp(exchange, facts, ["a", "c", "d"]));
      await Promise.all(many);
      return asked;
    };
    expect(await lookUp()).toBe(2 + 100);
    expect(await lookUp()).toBe(0);
    catalogues.get("a")?.expire("tools");
    expect(await lookUp()).toBe(2);
    await time.advance(5000);
    expect(await lookUp()).toBe(2 + 100);
  });

  it("waits for the first server where nobody has answered yet, and no longer for the others", async () => {
    const slow = Promise.withResolvers<Reply>();
    const { filler, time } = make({ a: () => new Promise(() => {}), b: () => slow.promise, c: failing("down") });
    let isFilled = false;
    const filling = filler.fill(exchange, facts, undefined).finally(() => (isFilled = true));
    await time.advance(10_000);
    expect(isFilled).toBe(false);
    slow.resolve(page(["x"]));
    await time.advance(0);
    const filled = await filling;
    expect(shown(filled)).toEqual(["b__x"]);
    expect(filled.degraded.map(({ upstream }) => upstream)).toEqual(["a", "c"]);
  });

  it("waits for several slow servers as long as for one", async () => {
    const never: Answer = () => new Promise(() => {});
    const { filler, time } = make({ a: never, b: never, c: never, d: paged([["x"]]) });
    const filling = filler.fill(exchange, facts, undefined);
    await time.advance(3000);
    expect(shown(await filling)).toEqual(["d__x"]);
    // They have been waited for; until they answer or fail, the next list goes on without them.
    const second = filler.fill(exchange, facts, undefined);
    await time.advance(0);
    expect(shown(await second)).toEqual(["d__x"]);
  });

  it("asks the servers of a later page at once, and no more of them than the page has room for", async () => {
    const waiting: { readonly name: string; readonly answer: () => void }[] = [];
    const slow = (name: string): Answer => {
      return async () =>
        new Promise((resolve) => {
          waiting.push({ name, answer: () => resolve(page(["x", "y"])) });
        });
    };
    const names = ["a", "b", "c", "d", "e", "f"];
    const { filler } = make(Object.fromEntries(names.map((name) => [name, slow(name)])), { page: 4 });
    const askedAtOnce = async (place: FilledPage["next"]): Promise<readonly [string[], FilledPage]> => {
      const filling = filler.fill(exchange, facts, place);
      await settled();
      const asked = waiting.splice(0);
      for (const { answer } of asked) answer();
      return [asked.map(({ name }) => name), await filling];
    };
    // Nothing is known of them yet.
    const [all, first] = await askedAtOnce(undefined);
    expect(all).toEqual(names);
    const [second, rest] = await askedAtOnce(first.next);
    expect(second).toEqual(["c", "d"]);
    expect(shown(rest)).toEqual(["c__x", "c__y", "d__x", "d__y"]);
    expect((await askedAtOnce(undefined))[0]).toEqual(["a", "b"]);
  });

  it("has cursors little longer than those of its servers", async () => {
    const { filler } = make({ a: paged([["x"], ["y"]], 4096) }, { page: 1 });
    const { next } = await filler.fill(exchange, facts, undefined);
    if (next === undefined) throw new TypeError("no more pages");
    expect(cursors.write(exchange, "tools/list", next).length).toBeLessThan(4096 * 1.4 + 200);
  });

  it("finds its place again where a server has forgotten its cursor", async () => {
    let isForgetful = false;
    const own = paged([
      ["a", "b"],
      ["c", "d"],
    ]);
    const { filler } = make(
      {
        m: async (cursor) => {
          if (cursor === undefined || !isForgetful) return own(cursor);
          isForgetful = false;
          return { message: errorMessage(idFrom(1), { code: -32602, message: "unknown cursor" }) };
        },
      },
      { page: 3 },
    );
    const first = await filler.fill(exchange, facts, undefined);
    isForgetful = true;
    const second = await filler.fill(exchange, facts, first.next);
    expect([...shown(first), ...shown(second)]).toEqual(["m__a", "m__b", "m__c", "m__d"]);
  });

  it("shows what a server that fails had before, but not for ever", async () => {
    let isDown = false;
    const { filler, time } = make({
      a: async (cursor) => (isDown ? failing("down")(cursor) : page(["x"])),
      b: paged([["y"]]),
    });
    await filler.fill(exchange, facts, undefined);
    isDown = true;
    const stale = await filler.fill(exchange, facts, undefined);
    expect(shown(stale)).toEqual(["a__x", "b__y"]);
    expect(stale.degraded).toMatchObject([{ upstream: "a", reason: "down", stale: true }]);
    await time.advance(600_001);
    expect(shown(await filler.fill(exchange, facts, undefined))).toEqual(["b__y"]);
  });

  it("does not miss a server that has no such lists", async () => {
    const { filler } = make({ a: erring(-32601), b: paged([["y"]]) });
    const filled = await filler.fill(exchange, facts, undefined);
    expect(shown(filled)).toEqual(["b__y"]);
    expect(filled.degraded).toEqual([]);
  });

  it("is an error and never empty where nobody answers", async () => {
    const { filler } = make({ a: failing("down"), b: failing("gone"), c: erring(-32601) });
    await expect(filler.fill(exchange, facts, undefined)).rejects.toThrow("the list is incomplete: a (down), b (gone)");
    const { filler: without } = make({ a: erring(-32601), b: erring(-32601) });
    await expect(without.fill(exchange, facts, undefined)).rejects.toMatchObject({ code: "method_not_found" });
  });

  it("is an error without a server that is required, or without any if that is asked for", async () => {
    const answers = { a: failing("down"), b: paged([["y"]]) };
    const required = make(answers, {}, { a: { required: true } });
    await expect(required.filler.fill(exchange, facts, undefined)).rejects.toThrow("a (down)");
    const strict = make(answers, { partial: "refuse" });
    await expect(strict.filler.fill(exchange, facts, undefined)).rejects.toThrow("a (down)");
  });

  it("leaves out bare names of two servers, and all bare names while one of the lists is unknown", async () => {
    const bare = { a: { prefix: "" }, b: { prefix: "" } };
    const { filler } = make({ a: paged([["x", "y"]]), b: paged([["y"], ["z"]]), c: paged([["y"]]) }, {}, bare);
    expect(shown(await filler.fill(exchange, facts, undefined))).toEqual(["x", "z", "c__y"]);
    const { filler: unsure } = make({ a: paged([["x"]]), b: failing("down"), c: paged([["y"]]) }, {}, bare);
    const filled = await unsure.fill(exchange, facts, undefined);
    expect(shown(filled)).toEqual(["c__y"]);
    expect(filled.degraded.map(({ upstream }) => upstream)).toEqual(["a", "b"]);
    const { filler: without } = make({ a: paged([["x"]]), b: failing("down"), c: erring(-32601) }, {}, bare);
    await expect(without.fill(exchange, facts, undefined)).rejects.toThrow(
      "the list is incomplete: a (bare names are offered once the list of b is known), b (down)",
    );
  });

  it("asks for a fresh list once, and again when it has changed", async () => {
    let asked = 0;
    const { filler } = make(
      {
        a: async () => {
          asked++;
          return page(["x"]);
        },
      },
      {},
      {},
      1000,
    );
    await Promise.all([filler.fill(exchange, facts, undefined), filler.fill(exchange, facts, undefined)]);
    await filler.fill(exchange, facts, undefined);
    expect(asked).toBe(1);
  });

  it("tells how long all parts may be kept", async () => {
    const hints =
      (ttlMs: number, cacheScope: string): Answer =>
      async () =>
        page(["x"], undefined, { ttlMs, cacheScope });
    const { filler } = make({ a: hints(5000, "public"), b: hints(2000, "public") });
    expect(await filler.fill(exchange, facts, undefined)).toMatchObject({ ttlMs: 2000, isPublic: true });
    const { filler: mixed } = make({ a: hints(5000, "public"), b: hints(9000, "private"), c: failing("down") });
    expect(await mixed.fill(exchange, facts, undefined)).toMatchObject({ ttlMs: 5000, isPublic: false });
    // The server that it lacks may be back at any time.
    const { filler: degraded } = make({ a: hints(60_000, "public"), b: failing("down") });
    expect(await degraded.fill(exchange, facts, undefined)).toMatchObject({ ttlMs: 5000 });
  });

  it("goes on with the next server where the one of a cursor has been taken away", async () => {
    const first = await make({ a: paged([["x", "y"]]), b: paged([["z"]]) }, { page: 1 }).filler.fill(
      exchange,
      facts,
      undefined,
    );
    const { filler } = make({ b: paged([["z"]]) }, { page: 1 });
    expect(shown(await filler.fill(exchange, facts, first.next))).toEqual(["b__z"]);
  });

  it("does not read cursors of other lists, callers or routes", () => {
    const place = { index: 0, member: "a", cursor: undefined, offset: 1, delivered: 1, pages: 0 };
    const cursor = cursors.write(exchange, "tools/list", place);
    const other = { ...exchange.principal, id: "someone else" };
    expect(cursors.read(exchange, "tools/list", cursor)).toEqual(place);
    expect(cursors.read(exchange, "prompts/list", cursor)).toBeUndefined();
    expect(cursors.read({ ...exchange, principal: other }, "tools/list", cursor)).toBeUndefined();
    expect(cursors.read({ ...exchange, route: "other" }, "tools/list", cursor)).toBeUndefined();
    expect(cursors.read(exchange, "tools/list", "made up")).toBeUndefined();
  });
});
