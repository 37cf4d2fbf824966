import { randomBytes } from "node:crypto";

import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { createProcessSeals, createSeals, minSealSecretBytes, type SealPurpose } from "./sealing.ts";

const purposes = ["session", "cursor", "requestState", "peer"] as const satisfies readonly SealPurpose[];
const older = randomBytes(minSealSecretBytes);
const newer = randomBytes(minSealSecretBytes);

describe("sealing", () => {
  it("opens what it sealed, for every purpose, content and context", () => {
    const seals = createSeals([older]);
    const cases = fc.tuple(fc.constantFrom(...purposes), fc.uint8Array({ maxLength: 2000 }), fc.string());
    fc.assert(
      fc.property(cases, ([purpose, content, context]) => {
        const text = seals[purpose].seal(content, context);
        expect(text).toMatch(/^[\x21-\x7e]+$/u);
        expect(seals[purpose].open(text, context)).toEqual(Buffer.from(content));
      }),
    );
  });

  it("seals the same content differently every time", () => {
    const { session } = createProcessSeals();
    expect(session.seal(Buffer.from("x"))).not.toBe(session.seal(Buffer.from("x")));
  });

  it("opens no text that differs in a single character, is cut or is longer", () => {
    const { session } = createSeals([older]);
    const text = session.seal(Buffer.from("content"), "route");
    const position = fc.nat(text.length - 1);
    const visible = fc.integer({ min: 0x21, max: 0x7e }).map((code) => String.fromCharCode(code));
    fc.assert(
      fc.property(position, visible, (at, character) => {
        fc.pre(text[at] !== character);
        expect(session.open(text.slice(0, at) + character + text.slice(at + 1), "route")).toBeUndefined();
        expect(session.open(text.slice(0, at), "route")).toBeUndefined();
        expect(session.open(text.slice(0, at) + character + text.slice(at), "route")).toBeUndefined();
        expect(session.open(text + character, "route")).toBeUndefined();
      }),
      { numRuns: 2000 },
    );
  });

  it("opens no text of any other form", () => {
    const { session } = createSeals([older]);
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(session.open(text)).toBeUndefined();
        expect(session.open(`hs1.${text}`)).toBeUndefined();
      }),
    );
  });

  it("opens nothing for another purpose, even with the tag of that purpose", () => {
    const seals = createSeals([older]);
    for (const from of purposes) {
      for (const to of purposes.filter((purpose) => purpose !== from)) {
        const text = seals[from].seal(Buffer.from("content"));
        const head = seals[to].seal(Buffer.from("")).split(".").slice(0, 2).join(".");
        expect(seals[to].open(text)).toBeUndefined();
        expect(seals[to].open(`${head}.${text.split(".")[2]}`)).toBeUndefined();
      }
    }
  });

  it("opens nothing in another context", () => {
    const { cursor } = createSeals([older]);
    expect(cursor.open(cursor.seal(Buffer.from("content"), "a"), "b")).toBeUndefined();
    expect(cursor.open(cursor.seal(Buffer.from("content"), "a"))).toBeUndefined();
  });

  it("seals with the first secret and opens with all", () => {
    const [before, both, after] = [createSeals([older]), createSeals([newer, older]), createSeals([newer])];
    const old = before.cursor.seal(Buffer.from("old"));
    const fresh = both.cursor.seal(Buffer.from("new"));
    expect(both.cursor.open(old)?.toString()).toBe("old");
    expect(after.cursor.open(fresh)?.toString()).toBe("new");
    expect(before.cursor.open(fresh)).toBeUndefined();
    expect(after.cursor.open(old)).toBeUndefined();
  });

  it("does not show the content", () => {
    const text = createProcessSeals().session.seal(Buffer.from("an upstream's session id"));
    expect(Buffer.from(text.split(".")[2] ?? "", "base64url").includes("upstream")).toBe(false);
  });

  it.each([
    ["no secret", []],
    ["a short secret", [randomBytes(minSealSecretBytes - 1)]],
    ["a short secret after a good one", [older, randomBytes(1)]],
  ])("refuses %s", (_name, secrets) => {
    expect(() => createSeals(secrets)).toThrow(TypeError);
  });
});
