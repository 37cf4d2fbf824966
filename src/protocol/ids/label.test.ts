import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createLabeler, decodeLabel, encodeLabel, type LabelParts, type LabelSubject } from "./label.ts";

const node = "0a1b2c3d";

function labelOf(session: string, subject: LabelSubject): string {
  return encodeLabel({ session, node, subject, counter: 7 });
}

/** All UTF-16 there is, halves of surrogate pairs included. */
const anyText = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.string({ unit: fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit)) }),
  fc.string({
    unit: fc.constantFrom("-", "%", "\r", "\n", "\0", " ", ".", "2", "D", "u", "\ud83d", "\ude00", "é"),
  }),
  fc.constantFrom("notif", "raw", "n.1", "s.", "%2D", "%uD800", ""),
);
const anySubject: fc.Arbitrary<LabelSubject> = fc.oneof(
  fc.constantFrom<LabelSubject>({ kind: "notification" }, { kind: "raw" }),
  anyText.map((text): LabelSubject => ({ kind: "id", key: `s:${text}` })),
  fc.constantFrom("n:1.5", "n:-0.25", "n:1e-7.").map((key): LabelSubject => ({ kind: "id", key })),
  fc.bigInt().map((digits): LabelSubject => ({ kind: "id", key: `n:${digits}` })),
);
const anyCount = fc.integer({ min: 1, max: Number.MAX_SAFE_INTEGER });
const anyParts: fc.Arbitrary<LabelParts> = fc.record(
  {
    session: anyText,
    node: fc.nat(0xffffffff).map((value) => value.toString(16).padStart(8, "0")),
    subject: anySubject,
    counter: anyCount,
    caused: anyCount,
  },
  { requiredKeys: ["session", "node", "subject", "counter"] },
);

describe("labels", () => {
  it("[SC-036] are session, node, id and counter, with notif for notifications and raw for the rest", () => {
    const labeler = createLabeler({ node });
    expect([
      labeler.label("s1", { kind: "id", key: "n:7" }),
      labeler.label("s1", { kind: "id", key: "s:abc" }),
      labeler.label("s2", { kind: "notification" }),
      labeler.label("", { kind: "raw" }),
    ]).toEqual([`s1-${node}-n.7-1`, `s1-${node}-s.abc-2`, `s2-${node}-notif-3`, `-${node}-raw-4`]);
  });

  it("[SC-036] count across all sessions of a process, and separately for each process", () => {
    const [one, two] = [createLabeler({ node }), createLabeler({ node: "ffffffff" })];
    const counters = Array.from({ length: 100 }, (_, i) => {
      const decoding = decodeLabel(one.label(`s${i % 3}`, { kind: "raw" }));
      return decoding.ok && decoding.parts.counter;
    });
    expect(counters).toEqual(Array.from({ length: 100 }, (_, i) => i + 1));
    expect(two.label("s", { kind: "raw" })).toBe("s-ffffffff-raw-1");
  });

  it.each(["", "0a1b2c3", "0a1b2c3d4", "0A1B2C3D", "0a1b-c3d"])("[SC-036] have no node %j", (bad) => {
    expect(() => createLabeler({ node: bad })).toThrow(RangeError);
  });

  it("[SC-037] escape what would break them", () => {
    const of = (text: string) => labelOf(text, { kind: "id", key: `s:${text}` });
    expect(of("a-b")).toBe(`a%2Db-${node}-s.a%2Db-7`);
    expect(of("50%")).toBe(`50%25-${node}-s.50%25-7`);
    expect(of("\r\n\0 ")).toBe(`%0D%0A%00%20-${node}-s.%0D%0A%00%20-7`);
    expect(of("é😀")).toBe(`%C3%A9%F0%9F%98%80-${node}-s.%C3%A9%F0%9F%98%80-7`);
    expect(of("\ud83dx")).toBe(`%uD83Dx-${node}-s.%uD83Dx-7`);
    expect(labelOf("", { kind: "id", key: "n:-1" })).toBe(`-${node}-n.%2D1-7`);
  });

  it('[SC-037] distinguish ids from the marks they look like, and 1 from "1"', () => {
    const labels = [
      labelOf("s", { kind: "notification" }),
      labelOf("s", { kind: "raw" }),
      labelOf("s", { kind: "id", key: "s:notif" }),
      labelOf("s", { kind: "id", key: "s:raw" }),
      labelOf("s", { kind: "id", key: "s:" }),
      labelOf("s", { kind: "id", key: "s:1" }),
      labelOf("s", { kind: "id", key: "n:1" }),
    ];
    expect(new Set(labels).size).toBe(labels.length);
  });

  it("[SC-037] are read back exactly, for any parts", () => {
    fc.assert(
      fc.property(anyParts, (parts) => {
        const label = encodeLabel(parts);
        expect(label).toMatch(/^[!-~]+$/);
        expect(label.split("-")).toHaveLength(4);
        expect(decodeLabel(label)).toEqual({ ok: true, parts });
      }),
      { numRuns: 5000 },
    );
  });

  it.each([
    ["", "label"],
    ["a", "label"],
    [`s-${node}-raw`, "label"],
    [`s-${node}-raw-1-`, "label"],
    [`a b-${node}-raw-1`, "session"],
    [`é-${node}-raw-1`, "session"],
    [`%-${node}-raw-1`, "session"],
    [`%2-${node}-raw-1`, "session"],
    [`%2d-${node}-raw-1`, "session"],
    [`%61-${node}-raw-1`, "session"],
    [`%C3-${node}-raw-1`, "session"],
    [`%FF-${node}-raw-1`, "session"],
    [`%ED%A0%80-${node}-raw-1`, "session"],
    [`%u0041-${node}-raw-1`, "session"],
    [`%uD83D%uDE00-${node}-raw-1`, "session"],
    ["s-0A1B2C3D-raw-1", "node"],
    ["s--raw-1", "node"],
    [`s-${node}--1`, "id"],
    [`s-${node}-NOTIF-1`, "id"],
    [`s-${node}-7-1`, "id"],
    [`s-${node}-n.-1`, "id"],
    [`s-${node}-n.x-1`, "id"],
    [`s-${node}-x.7-1`, "id"],
    [`s-${node}-s.%zz-1`, "id"],
    [`s-${node}-raw-`, "counter"],
    [`s-${node}-raw-0`, "counter"],
    [`s-${node}-raw-01`, "counter"],
    [`s-${node}-raw-1e3`, "counter"],
    [`s-${node}-raw-9007199254740992`, "counter"],
    [`s-${node}-raw-1.`, "counter"],
    [`s-${node}-raw-.1`, "counter"],
    [`s-${node}-raw-1.0`, "counter"],
    [`s-${node}-raw-1.2.3`, "counter"],
  ])("[SC-037] refuse %j for its %s", (label, part) => {
    expect(decodeLabel(label)).toMatchObject({ ok: false, part });
  });

  it("[SC-037] are never read from text that would be written differently", () => {
    const almost = fc.string({
      unit: fc.constantFrom("-", "%", "2", "D", "u", "8", "n", ".", "s", "raw", node, "1"),
    });
    fc.assert(
      fc.property(almost, (text) => {
        const decoding = decodeLabel(text);
        expect(decoding.ok ? encodeLabel(decoding.parts) : text).toBe(text);
      }),
      { numRuns: 2000 },
    );
  });
});
