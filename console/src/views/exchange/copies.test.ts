import { execFileSync } from "node:child_process";

import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { shellQuoted } from "./copies.ts";

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
});
