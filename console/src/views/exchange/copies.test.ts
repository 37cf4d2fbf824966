import { execFileSync } from "node:child_process";

import fc from "fast-check";
import { describe, expect, it } from "vitest";

import type { ExchangeRecord } from "../../../../src/recorder/contract.ts";
import { asCurl, asHeadgateCall, asTest, shellQuoted } from "./copies.ts";

describe("a copied command", () => {
  it("gives the shell exactly what was recorded, whatever that was", () => {
    const hostile = fc.string({ unit: fc.constantFrom("'", '"', "$", "`", "\\", ";", "&", "\n", " ", "a", "(", "é") });
    fc.assert(
      fc.property(fc.array(hostile, { minLength: 1, maxLength: 5 }), (words) => {
        const shown = execFileSync("sh", ["-c", `printf '%s\\037' ${words.map(shellQuoted).join(" ")}`]).toString();
        expect(shown.split("\u001F").slice(0, -1)).toEqual(words);
      }),
      { numRuns: 50 },
    );
  });

  it("has every digit of every number", () => {
    const numbers = ["12345678901234567890", "1.0", "-0.1", "1e400", "0.30000000000000000001", "100e-2"];
    const request = `{"method":"tools/call","params":{"name":"add","arguments":{"all":[${numbers.join(",")}]}}}`;
    const answer = `{"result":{"structuredContent":{"total":98765432109876543210},"_meta":{}}}`;
    const record = { method: "tools/call", target: "add", revision: "2025-11-25" } as ExchangeRecord;
    const source = { record, request, answer, url: "http://127.0.0.1:1/mcp" };
    const option = request.replace('"add"', '"--url=http://evil.example"');
    expect(asHeadgateCall({ ...source, request: option })).toBeUndefined();
    for (const copy of [asHeadgateCall(source) ?? "", asCurl(source)]) expect(copy).toContain(numbers.join(","));
    const test = asTest(source);
    for (const one of [...numbers, "98765432109876543210"]) expect(test).toContain(one);
    // Those that JavaScript changes are named, and no others.
    expect(/cannot hold (?<lost>.*):/u.exec(test)?.groups?.["lost"]).toBe(
      "12345678901234567890, 1e400, 0.30000000000000000001, 98765432109876543210",
    );
  });
});
