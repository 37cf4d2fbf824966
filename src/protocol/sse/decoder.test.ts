import { createParser } from "eventsource-parser";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createSseDecoder } from "./decoder.ts";

type Seen =
  | {
      readonly event: {
        kind: string;
        data: string;
        id: string | undefined;
        event: string | undefined;
        retry: number | undefined;
      };
    }
  | { readonly comment: string }
  | { readonly retry: number }
  | { readonly overflow: { limit: number; id: string | undefined; event: string | undefined } }
  | { readonly end: unknown };

/** Everything a decoder reports for these chunks, in order. The data is latin1, so that every byte shows. */
function decode(chunks: readonly Uint8Array[], maxEventBytes = 1000, reportComments = true): Seen[] {
  const seen: Seen[] = [];
  const decoder = createSseDecoder({
    maxEventBytes,
    onEvent({ kind, data, id, event, retry }) {
      seen.push({ event: { kind, data: data.toString("latin1"), id, event, retry } });
    },
    ...(reportComments && { onComment: (comment: string) => seen.push({ comment }) }),
    onRetry: (retry) => seen.push({ retry }),
    onOverflow: ({ limit, id, event }) => seen.push({ overflow: { limit, id, event } }),
  });
  for (const chunk of chunks) decoder.push(chunk);
  seen.push({ end: decoder.end() });
  return seen;
}

/** Only the events of a stream that arrives whole and ends well. */
function events(text: string) {
  const seen = decode([Buffer.from(text)]);
  expect(seen.at(-1)).toEqual({ end: { complete: true } });
  return seen.flatMap((one) => ("event" in one ? [one.event] : []));
}

function plain(data: string, more: { id?: string; event?: string; retry?: number } = {}) {
  const { id, event, retry } = more;
  return { kind: data === "" ? "empty" : "data", data, id, event, retry };
}

function isEmptyEvent(one: unknown): boolean {
  return typeof one === "object" && one !== null && "data" in one && one.data === "";
}

function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const inside = places.map((place) => place % (bytes.length + 1)).toSorted((a, b) => a - b);
  return [0, ...inside].map((start, i) => bytes.subarray(start, inside[i] ?? bytes.length));
}

/** The pieces that event streams and their accidents are made of. */
const soup = fc
  .array(
    fc.oneof(
      { weight: 6, arbitrary: fc.constantFrom("\n", "\n", "\r\n", "\r") },
      {
        weight: 5,
        arbitrary: fc.constantFrom("data", "data:", "data: ", "event: message\n", "event:", "id:", "id: "),
      },
      {
        weight: 2,
        arbitrary: fc.constantFrom("retry: 10\n", "retry:", "data: {}\n\n", "event: message\r\n", "\n\n"),
      },
      { weight: 2, arbitrary: fc.constantFrom(":", " ", "dat", "ids", "eventually:", "7", "\0", "\t") },
      { weight: 2, arbitrary: fc.constantFrom("é", "漢", "😀", "\u{feff}", "x", '{"jsonrpc":"2.0"}') },
    ),
    { maxLength: 40, size: "max" },
  )
  .map((pieces) => Buffer.from(pieces.join("")));

describe("fields", () => {
  it("[SC-088] joins several data lines by LF", () => {
    expect(events("data: a\ndata:b\ndata\ndata:  c\n\n")).toEqual([plain("a\nb\n\n c")]);
  });

  it("takes one space after the colon away and no more", () => {
    expect(events("event:  x\nid:  1\ndata:  y\n\n")).toEqual([plain(" y", { event: " x", id: " 1" })]);
  });

  it("reads every field in any order", () => {
    const expected = plain("d", { id: "7", event: "ping", retry: 3000 });
    expect(events("retry: 3000\ndata: d\nid: 7\nevent: ping\n\n")).toEqual([expected]);
    expect(events("id: 7\nevent: ping\nretry: 3000\ndata: d\n\n")).toEqual([expected]);
  });

  it("ignores names that it does not know, and those that differ in case or begin like a known one", () => {
    expect(events("Data: a\ndatax: b\ndat: c\nnonsense\ndata: d\n\n")).toEqual([plain("d")]);
  });

  it("takes the last of several ids and types, and an empty type for the default", () => {
    expect(events("id: 1\nid: 2\nevent: a\nevent: b\ndata: x\n\n")).toEqual([plain("x", { id: "2", event: "b" })]);
    expect(events("event: a\nevent:\ndata: x\n\n")).toEqual([plain("x")]);
  });

  it("[SC-088] ignores an id with NUL and keeps the one before it", () => {
    expect(events("id: a\0b\ndata: x\n\n")).toEqual([plain("x")]);
    expect(events("id: 1\nid: \0\ndata: x\n\n")).toEqual([plain("x", { id: "1" })]);
  });

  it("takes an empty id for one that resets the last", () => {
    expect(events("id\ndata: x\n\n")).toEqual([plain("x", { id: "" })]);
    expect(events("id:\n\n")).toEqual([plain("", { id: "" })]);
  });

  it("starts each event without the fields of the one before", () => {
    expect(events("event: a\nid: 1\nretry: 5\ndata: x\n\ndata: y\n\n")).toEqual([
      plain("x", { event: "a", id: "1", retry: 5 }),
      plain("y"),
    ]);
  });

  it.each([
    ["0", 0],
    ["2500", 2500],
    ["007", 7],
    ["99999999999999999999", Number.MAX_SAFE_INTEGER],
  ])("[SC-088] reads retry %s", (text, milliseconds) => {
    expect(decode([Buffer.from(`retry: ${text}\n\n`)])).toEqual([{ retry: milliseconds }, { end: { complete: true } }]);
  });

  it.each(["", "-1", "+1", "1.5", "1e3", "٣", "5 ", "0x10"])("[SC-088] ignores retry %j", (text) => {
    expect(decode([Buffer.from(`retry: ${text}\n\n`)])).toEqual([{ end: { complete: true } }]);
  });

  it("[SC-088] reports comments apart from events, also inside one", () => {
    expect(decode([Buffer.from(": ping\n\n:\n:x\ndata: a\n:  mid\ndata: b\n\n")])).toEqual([
      { comment: "ping" },
      { comment: "" },
      { comment: "x" },
      { comment: " mid" },
      { event: plain("a\nb") },
      { end: { complete: true } },
    ]);
  });
});

describe("events without data", () => {
  it("[SC-088] reports a priming event as empty, so that it is not parsed as JSON", () => {
    expect(events("id: 0\ndata:\n\n")).toEqual([plain("", { id: "0" })]);
    expect(events("id: 0\nretry: 500\ndata: \n\n")).toEqual([plain("", { id: "0", retry: 500 })]);
    expect(events("id: 0\n\n")).toEqual([plain("", { id: "0" })]);
  });

  it("[SC-088] reports an empty data line as an empty event", () => {
    expect(events("data:\n\ndata\n\n")).toEqual([plain(""), plain("")]);
  });

  it("takes several empty data lines for data, as WHATWG joins them", () => {
    expect(events("data\ndata\n\n")).toEqual([plain("\n")]);
  });

  it("reports nothing for a type alone, and does not carry it over", () => {
    expect(events("event: a\n\n\n\ndata: x\n\n")).toEqual([plain("x")]);
  });
});

describe("line ends and chunks", () => {
  it.each(["\n", "\r", "\r\n"])("ends lines at %j", (end) => {
    const text = ["event: a", "data: 1", "data: 2", "", "id: 3", "data: 4", "", ""].join(end);
    expect(events(text)).toEqual([plain("1\n2", { event: "a" }), plain("4", { id: "3" })]);
  });

  it("[SC-088] reads CR LF across two chunks as one line end", () => {
    const chunks = ["data: a\r", "\ndata: b\r", "\n\r", "\ndata: c\r", "\r", "data: d\r", "\n", "\n"];
    expect(decode(chunks.map((chunk) => Buffer.from(chunk)))).toEqual([
      { event: plain("a\nb") },
      { event: plain("c") },
      { event: plain("d") },
      { end: { complete: true } },
    ]);
  });

  it("reports an event at the CR that ends it, without waiting for a LF", () => {
    const seen: string[] = [];
    const decoder = createSseDecoder({
      maxEventBytes: 100,
      onEvent: ({ data }) => seen.push(data.toString()),
    });
    decoder.push(Buffer.from("data: a\r\n\r"));
    expect(seen).toEqual(["a"]);
  });

  it("sees a lone CR between two fields of a line that LF ends", () => {
    expect(events("data: a\rdata: b\n\nevent: x\rid: 1\rdata: c\n\nid: 2\rdata: d\r\n\r\n")).toEqual([
      plain("a\nb"),
      plain("c", { event: "x", id: "1" }),
      plain("d", { id: "2" }),
    ]);
  });

  it("knows a repeated type line by its line end, too", () => {
    expect(events("event: a\r\ndata: 1\r\n\r\nevent: a\rdata: 2\r\revent: a\r\ndata: 3\n\n")).toEqual([
      plain("1", { event: "a" }),
      plain("2", { event: "a" }),
      plain("3", { event: "a" }),
    ]);
  });

  it("skips one byte order mark at the start, even in pieces", () => {
    const bytes = Buffer.from("\u{feff}data: a\n\n");
    expect(decode([bytes])).toEqual([{ event: plain("a") }, { end: { complete: true } }]);
    expect(decode([bytes.subarray(0, 1), bytes.subarray(1, 2), bytes.subarray(2)])).toEqual(decode([bytes]));
    expect(events("\u{feff}\u{feff}data: a\n\ndata: b\n\n")).toEqual([plain("b")]);
  });

  it("takes what only began like a byte order mark for content", () => {
    const bytes = Buffer.from([0xef, 0xbb, 0x3a, 0x0a, ...Buffer.from("data: a\n\n")]);
    expect(decode([bytes.subarray(0, 1), bytes.subarray(1, 2), bytes.subarray(2)])).toEqual(decode([bytes]));
    expect(decode([bytes])).toEqual([{ event: plain("a") }, { end: { complete: true } }]);
    expect(decode([Buffer.from([0xef, 0xbb])])).toEqual([{ end: { complete: false, discarded: 2 } }]);
  });

  it("keeps bytes that are not UTF-8 as they are", () => {
    const bytes = Buffer.concat([Buffer.from("data: "), Buffer.from([0xff, 0xc3, 0x28]), Buffer.from("\n\n")]);
    expect(decode([bytes])[0]).toEqual({ event: plain("\u00ff\u00c3(") });
  });

  it("takes plain Uint8Arrays and empty chunks", () => {
    const bytes = new Uint8Array(Buffer.from("..data: a\n\n"));
    const chunks = [new Uint8Array(0), bytes.subarray(2, 5), new Uint8Array(0), bytes.subarray(5)];
    expect(decode(chunks)).toEqual([{ event: plain("a") }, { end: { complete: true } }]);
  });

  it("[SC-088] gives the same events for any split of any stream", () => {
    fc.assert(
      fc.property(
        soup,
        fc.array(fc.nat(), { maxLength: 12 }),
        fc.integer({ min: 1, max: 60 }),
        (bytes, places, limit) => {
          const whole = decode([bytes], limit);
          expect(decode(cut(bytes, places), limit)).toEqual(whole);
          expect(
            decode(
              Array.from(bytes, (byte) => Buffer.from([byte])),
              limit,
            ),
          ).toEqual(whole);
          expect(decode(cut(bytes, places), limit, false)).toEqual(whole.filter((one) => !("comment" in one)));
        },
      ),
      { numRuns: 2000 },
    );
  });

  it("agrees with an independent parser on any stream", () => {
    fc.assert(
      fc.property(soup, (bytes) => {
        const theirs: unknown[] = [];
        const parser = createParser({
          onEvent: ({ id, event, data }) => theirs.push({ id, event, data: Buffer.from(data).toString("latin1") }),
          onRetry: (retry) => theirs.push({ retry }),
          onComment: (comment) => theirs.push({ comment }),
        });
        // Its decoder must leave the byte order mark to the parser, or a second one would vanish too.
        parser.feed(new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes));
        const ours = decode([bytes]).flatMap((one): unknown[] => {
          if ("end" in one) return [];
          if (!("event" in one)) return [one];
          const { id, event, data } = one.event;
          return [{ id, event, data }];
        });
        // It does not report bare ids, which look like empty data here.
        expect(ours.filter((one) => !isEmptyEvent(one))).toEqual(theirs.filter((one) => !isEmptyEvent(one)));
      }),
      { numRuns: 2000 },
    );
  });
});

describe("an event that is too large", () => {
  const long = "x".repeat(30);

  it("[SC-088] is reported once and skipped", () => {
    const text = `id: 1\nevent: a\ndata: ${long}\ndata: ${long}\nid: 2\n\ndata: next\n\n`;
    expect(decode([Buffer.from(text)], 40)).toEqual([
      { overflow: { limit: 40, id: "1", event: "a" } },
      { event: plain("next") },
      { end: { complete: true } },
    ]);
  });

  it("is reported before it ends, with its size so far", () => {
    const sizes: number[] = [];
    const decoder = createSseDecoder({
      maxEventBytes: 50,
      onEvent: () => expect.unreachable(),
      onOverflow: ({ size }) => sizes.push(size),
    });
    decoder.push(Buffer.from(`id: 9\ndata: ${long}`));
    expect(sizes).toEqual([]);
    decoder.push(Buffer.from(long));
    decoder.push(Buffer.from(long));
    expect(sizes).toEqual([6 + 6 + 60]);
    expect(decoder.end()).toEqual({ complete: false, discarded: 6 + 6 + 90 });
  });

  it.each(["\n", "\r\n", "\r"])("fits with exactly the limit, each %j counted as one byte", (end) => {
    const text = `event: a${end}data: b${end}${end}`;
    expect(decode([Buffer.from(text)], 17)[0]).toEqual({ event: plain("b", { event: "a" }) });
    expect(decode([Buffer.from(text)], 16)[0]).toEqual({
      overflow: { limit: 16, id: undefined, event: "a" },
    });
  });

  it("may be made of lines that are ignored, and of comments after its first field", () => {
    const overflow = { overflow: { limit: 20, id: undefined, event: undefined } };
    expect(decode([Buffer.from("nonsense: 1234567890123\ndata: a\n\n")], 20)[0]).toEqual(overflow);
    expect(decode([Buffer.from("data: a\n:234567890123\n\n")], 20)[0]).toEqual(overflow);
  });

  it("is not made of comments before it, however many or long they are", () => {
    const text = `${":2345\n".repeat(100)}:${long}\ndata: a\n\n`;
    const seen = decode([Buffer.from(text)], 20);
    expect(seen).toHaveLength(102);
    expect(seen.slice(-2)).toEqual([{ event: plain("a") }, { end: { complete: true } }]);
    expect(
      decode(
        Array.from(Buffer.from(text), (byte) => Buffer.from([byte])),
        20,
      ),
    ).toEqual(seen);
  });
});

describe("the end of the stream", () => {
  it("is complete between events, and after comments that were cut", () => {
    expect(decode([])).toEqual([{ end: { complete: true } }]);
    expect(decode([Buffer.from("data: a\n\n\n")]).at(-1)).toEqual({ end: { complete: true } });
    expect(decode([Buffer.from(": half a comm")]).at(-1)).toEqual({ end: { complete: true } });
  });

  it.each([
    ["data: a", 7],
    ["data: a\n", 8],
    ["data: a\r\n", 8],
    ["id: 1\ndata: b", 13],
    ["d", 1],
  ])("discards the unfinished event %j and says so", (text, discarded) => {
    expect(decode([Buffer.from(`data: x\n\n${text}`)])).toEqual([
      { event: plain("x") },
      { end: { complete: false, discarded } },
    ]);
  });

  it("leaves the decoder as new", () => {
    const seen: string[] = [];
    const decoder = createSseDecoder({
      maxEventBytes: 20,
      onEvent: ({ data }) => seen.push(data.toString()),
    });
    for (const unfinished of ["data: a", "id: 1\ndata: b\r", `data: ${"c".repeat(30)}`, ": comment", "\u{feff}data"]) {
      decoder.push(Buffer.from(unfinished));
      decoder.end();
      decoder.push(Buffer.from("\u{feff}data: d\n\n"));
      expect(decoder.end()).toEqual({ complete: true });
    }
    expect(seen).toEqual(["d", "d", "d", "d", "d"]);
  });
});

describe("bytes", () => {
  it("[SC-088] points into the chunk that holds the whole event, without copying", () => {
    const chunk = Buffer.from('event: message\nid: 1\ndata: {"a":1}\n\n: x\ndata: b\nretry: 1\n\n');
    const seen: Buffer[] = [];
    const decoder = createSseDecoder({
      maxEventBytes: 100,
      onEvent: ({ data, raw }) => seen.push(data, raw),
    });
    decoder.push(chunk);
    expect(seen.map(String)).toEqual([
      '{"a":1}',
      'event: message\nid: 1\ndata: {"a":1}\n\n',
      "b",
      "data: b\nretry: 1\n\n",
    ]);
    expect(seen.every((bytes) => bytes.buffer === chunk.buffer && bytes.byteOffset >= chunk.byteOffset)).toBe(true);
  });

  it("gives the same view of the data each time", () => {
    const decoder = createSseDecoder({
      maxEventBytes: 100,
      onEvent: (event) => {
        expect(event.data).toBe(event.data);
      },
    });
    decoder.push(Buffer.from("data: a\n\ndata: a\ndata: b\n\n"));
    expect.assertions(2);
  });

  it("gives raw bytes that decode to the same event, whatever the chunks", () => {
    fc.assert(
      fc.property(soup, fc.array(fc.nat(), { maxLength: 6 }), (bytes, places) => {
        const raws: Buffer[] = [];
        const decoder = createSseDecoder({ maxEventBytes: 1000, onEvent: ({ raw }) => raws.push(raw) });
        for (const chunk of cut(bytes, places)) decoder.push(chunk);
        const isEvent = (one: Seen) => "event" in one;
        // A byte order mark counts only at the start of a stream.
        const again = raws.flatMap((raw) => decode([Buffer.from("\n"), raw]).filter(isEvent));
        expect(again).toEqual(decode([bytes]).filter(isEvent));
      }),
      { numRuns: 1000 },
    );
  });

  it("keeps the raw bytes of a well-formed stream to the last one", () => {
    const text = "id: 1\ndata: a\n\nevent: x\ndata: b\ndata: c\n\nfoo: bar\ndata\n\n";
    fc.assert(
      fc.property(fc.array(fc.nat(), { maxLength: 6 }), (places) => {
        const raws: Buffer[] = [];
        const decoder = createSseDecoder({ maxEventBytes: 1000, onEvent: ({ raw }) => raws.push(raw) });
        for (const chunk of cut(Buffer.from(text), places)) decoder.push(chunk);
        expect(Buffer.concat(raws).toString()).toBe(text);
      }),
    );
  });

  it("does not write into bytes that it gave away", () => {
    const seen: Buffer[] = [];
    const decoder = createSseDecoder({ maxEventBytes: 5000, onEvent: ({ data }) => seen.push(data) });
    const texts = Array.from({ length: 50 }, (_, i) => String.fromCharCode(65 + (i % 26)).repeat(i * 40 + 1));
    for (const text of texts) for (const chunk of ["da", `ta: ${text}`, "\n", "\n"]) decoder.push(Buffer.from(chunk));
    expect(seen.map(String)).toEqual(texts);
  });

  it("assembles a large event from small slices", () => {
    const json = Buffer.from(JSON.stringify({ text: "é".repeat(1_000_000) }));
    const bytes = Buffer.concat([Buffer.from("data: "), json, Buffer.from("\n\n")]);
    const seen: Buffer[] = [];
    const decoder = createSseDecoder({ maxEventBytes: 4_000_000, onEvent: ({ data }) => seen.push(data) });
    for (let at = 0; at < bytes.length; at += 1000) decoder.push(bytes.subarray(at, at + 1000));
    for (let at = 0; at < bytes.length; at += 1024) decoder.push(bytes.subarray(at, at + 1024));
    expect(seen).toHaveLength(2);
    expect(seen.every((data) => data.equals(json))).toBe(true);
  });
});
