import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createSseDecoder } from "./decoder.ts";
import {
  encodeDataLines,
  encodePrimingEvent,
  encodeSseEvent,
  encodeSseMessage,
  lineBounds,
  type SseEventInput,
} from "./encoder.ts";

function text(input: SseEventInput): string {
  const encoding = encodeSseEvent(input);
  return encoding.ok ? encoding.bytes.toString() : encoding.field;
}

function decode(bytes: Buffer) {
  const events: { data: Buffer; id?: string; event?: string; retry?: number }[] = [];
  const comments: string[] = [];
  const decoder = createSseDecoder({
    maxEventBytes: 1_000_000,
    onEvent: ({ data, id, event, retry }) => {
      events.push({
        data,
        ...(id !== undefined && { id }),
        ...(event !== undefined && { event }),
        ...(retry !== undefined && { retry }),
      });
    },
    onComment: (comment) => comments.push(comment),
  });
  decoder.push(bytes);
  expect(decoder.end()).toEqual({ complete: true });
  return { events, comments };
}

const line = fc.string({ unit: "binary" }).filter((value) => value.isWellFormed() && !/[\r\n]/.test(value));
const optionalFields = fc.record(
  {
    event: line.filter((value) => value !== ""),
    id: line.filter((value) => !value.includes("\0")),
    retry: fc.maxSafeNat(),
  },
  { requiredKeys: [] },
);

describe("encoding an event", () => {
  it("writes the fields that are given, then the data and a blank line", () => {
    expect(text({ data: "{}" })).toBe("data: {}\n\n");
    expect(text({ event: "message", id: "7", retry: 500, data: Buffer.from("{}") })).toBe(
      "event: message\nid: 7\nretry: 500\ndata: {}\n\n",
    );
    expect(text({ event: "", id: "", data: "" })).toBe("id: \ndata: \n\n");
  });

  it("splits data at raw line breaks, so that pretty-printed JSON stays one event", () => {
    expect(text({ data: '{\n  "a": 1\r\n}\r' })).toBe('data: {\ndata:   "a": 1\ndata: }\ndata: \n\n');
  });

  it("is undone by decoding, but for the style of line breaks in the data", () => {
    const data = fc.oneof(
      fc.uint8Array().map((bytes) => Buffer.from(bytes)),
      fc.string({ unit: fc.constantFrom("\r", "\n", " ", ":", "é", "{") }).map((value) => Buffer.from(value)),
    );
    fc.assert(
      fc.property(optionalFields, data, (fields, bytes) => {
        const encoding = encodeSseEvent({ ...fields, data: bytes });
        const normalised = Buffer.from(bytes.toString("latin1").replaceAll(/\r\n?/g, "\n"), "latin1");
        const expected = { events: [{ ...fields, data: normalised }], comments: [] };
        expect(encoding.ok && decode(encoding.bytes)).toEqual(expected);
      }),
      { numRuns: 1000 },
    );
  });

  it("gives the same bytes for text and its UTF-8", () => {
    fc.assert(
      fc.property(line, (data) => {
        expect(encodeSseEvent({ data })).toEqual(encodeSseEvent({ data: Buffer.from(data) }));
      }),
    );
  });

  it.each(["a\nb", "\r", "a\0b", "\ud800"])("never writes the id %j", (id) => {
    expect(encodeSseEvent({ id, data: "{}" })).toMatchObject({ ok: false, field: "id" });
    expect(encodePrimingEvent(id)).toMatchObject({ ok: false, field: "id" });
  });

  it.each(["a\nb", "\r", "\udc00x"])("never writes the event type %j", (event) => {
    expect(encodeSseEvent({ event, data: "{}" })).toMatchObject({ ok: false, field: "event" });
  });

  it.each([-1, 1.5, Number.NaN, Infinity, 2 ** 53])("never writes retry %d", (retry) => {
    expect(encodeSseEvent({ retry, data: "{}" })).toMatchObject({ ok: false, field: "retry" });
  });
});

describe("encoding what streams are made of besides", () => {
  it("writes a message without an id", () => {
    expect(encodeSseMessage(Buffer.from('{"a":1}')).toString()).toBe('event: message\ndata: {"a":1}\n\n');
    expect(decode(encodeSseMessage(Buffer.from("[\n]"))).events).toEqual([
      { event: "message", data: Buffer.from("[\n]") },
    ]);
  });

  it("writes a priming event as an id with empty data", () => {
    const encoding = encodePrimingEvent("s1_0", 500);
    expect(encoding.ok && encoding.bytes.toString()).toBe("id: s1_0\nretry: 500\ndata: \n\n");
    expect(encoding.ok && decode(encoding.bytes).events).toEqual([{ id: "s1_0", retry: 500, data: Buffer.alloc(0) }]);
  });

  it("writes data lines in the given style of line end", () => {
    expect(encodeDataLines(Buffer.from("a\nb"), Buffer.from("\r\n")).toString()).toBe("data: a\r\ndata: b\r\n");
  });
});

describe("line bounds", () => {
  it("are those of a split at LF, CR LF and CR", () => {
    const lineText = fc.string({ unit: fc.constantFrom("\r", "\n", "a", "b") });
    fc.assert(
      fc.property(lineText, (lines) => {
        const bounds = lineBounds(Buffer.from(lines));
        const found = lines.split(/\r\n|\r|\n/).map((_, i) => lines.slice(bounds[i * 2], bounds[i * 2 + 1]));
        expect(found).toEqual(lines.split(/\r\n|\r|\n/));
        expect(bounds).toHaveLength(found.length * 2);
      }),
    );
  });
});
