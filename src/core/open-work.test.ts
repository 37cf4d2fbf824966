import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { OpenWork, type OpenWorkEntry } from "./open-work.ts";

describe("open work", () => {
  it("knows exactly what has begun and not ended, in any order", () => {
    const steps = fc.array(fc.tuple(fc.boolean(), fc.nat()), { maxLength: 60 });
    fc.assert(
      fc.property(steps, (all) => {
        const open = new OpenWork();
        const expected: { readonly name: number; readonly entry: OpenWorkEntry }[] = [];
        const abandoned: number[] = [];
        for (const [name, [begins, pick]] of all.entries()) {
          if (begins || expected.length === 0) {
            expected.push({ name, entry: open.begin({ abandon: () => abandoned.push(name) }) });
          } else {
            const [gone] = expected.splice(pick % expected.length, 1);
            expect(gone?.entry.end()).toBe(true);
            expect(gone?.entry.end()).toBe(false);
          }
        }
        open.abandon();
        expect(abandoned).toEqual(expected.map(({ name }) => name).toReversed());
      }),
    );
  });

  it("is idle while only uncounted work is open, and empty after that", async () => {
    const open = new OpenWork();
    const stream = open.begin({ abandon: () => {} }, false);
    const call = open.begin({ abandon: () => {} });
    const seen: string[] = [];
    const idle = open.whenIdle().then(() => seen.push("idle"));
    const empty = open.whenEmpty().then(() => seen.push("empty"));
    call.end();
    await idle;
    expect(seen).toEqual(["idle"]);
    stream.end();
    await empty;
    expect(seen).toEqual(["idle", "empty"]);
  });
});
