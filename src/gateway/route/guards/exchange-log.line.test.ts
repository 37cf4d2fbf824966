import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { createExchangeLineFormatter } from "./exchange-log.ts";

const hex = (length: number) =>
  fc
    .array(fc.constantFrom(...Array.from("0123456789abcdef")), { minLength: length, maxLength: length })
    .map((digits) => digits.join(""));
const maybe = <Value>(arbitrary: fc.Arbitrary<Value>) => fc.option(arbitrary, { nil: undefined });

const fields = fc.record({
  exchange: hex(12),
  trace: maybe(hex(32)),
  route: fc.string(),
  direction: fc.constantFrom("c2s" as const, "s2c" as const),
  method: maybe(fc.string({ unit: "binary" })),
  target: maybe(fc.string({ unit: "binary", maxLength: 400 })),
  rpc: maybe(
    fc.oneof(
      fc.integer().map(String),
      fc.string().map((text) => JSON.stringify(text)),
    ),
  ),
  session: maybe(hex(8)),
  principal: fc.string(),
  peer: maybe(fc.ipV6()),
  revision: fc.constant("2025-11-25"),
  outcome: fc.constantFrom("ok", "failed"),
  ms: fc.integer({ min: 0, max: 1e6 }).map((hundredths) => hundredths / 100),
});

const call = {
  exchange: "e",
  trace: undefined,
  route: "r",
  direction: "c2s",
  method: "tools/call",
  target: "echo",
  rpc: "1",
  session: undefined,
  principal: "p",
  peer: undefined,
  revision: "2025-11-25",
  outcome: "ok",
  ms: 1,
} as const;

describe("the line of an exchange", () => {
  it("equals the output of a general serialiser, in the same order, for any peer input", () => {
    const line = createExchangeLineFormatter(String);
    fc.assert(
      fc.property(fields, (values) => {
        expect(`{${line(values).slice(1)}}`).toBe(JSON.stringify({ ...values, msg: "exchange" }));
      }),
    );
  });

  it("has every text of a peer cleaned, and long numbers too", () => {
    const line = createExchangeLineFormatter((text) => text.replaceAll(/hunter2|4111111111111111/gu, "(secret)"));
    const texts = { method: "a/hunter2", target: "file:///hunter2", principal: "hunter2", peer: "hunter2" };
    for (const rpc of ['"hunter2"', "4111111111111111"]) {
      const text = line({ ...call, ...texts, route: "hunter2", rpc });
      expect(text).not.toMatch(/hunter2|4111/u);
      expect(text.split("(secret)")).toHaveLength(7);
    }
  });

  it("takes out what has become a secret, within some hundred lines", () => {
    let secret = "none";
    const line = createExchangeLineFormatter((text) => text.replaceAll(secret, "(secret)"));
    expect(line({ ...call, target: "hunter2" })).toContain("hunter2");
    secret = "hunter2";
    const later = Array.from({ length: 300 }, () => line({ ...call, target: "hunter2" }));
    expect(later.at(-1)).not.toContain("hunter2");
  });

  it("mixes no texts up, however many there are", () => {
    const line = createExchangeLineFormatter(String);
    for (let index = 0; index < 3000; index++) {
      const text = line({ ...call, target: `"tool" ${index}` });
      expect(JSON.parse(`{${text.slice(1)}}`)).toMatchObject({ target: `"tool" ${index}`, route: "r" });
    }
  });
});
