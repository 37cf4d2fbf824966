import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { thrownCode, thrownMessage } from "./thrown-message.ts";

function thrownBy(work: () => unknown): unknown {
  try {
    work();
  } catch (error) {
    return error;
  }
  return undefined;
}

describe("a thrown value", () => {
  it.each<[unknown, string]>([
    [new TypeError("no"), "no"],
    ["text", "text"],
    [undefined, "undefined"],
  ])("has a message: %s", (thrown, message) => {
    expect(thrownMessage(thrown)).toBe(message);
  });

  it("has a code if the system threw it", () => {
    expect(thrownCode(thrownBy(() => readFileSync("/nowhere/at/all")))).toBe("ENOENT");
    for (const thrown of [new Error("no"), Object.assign(new Error("no"), { code: 7 }), "ENOENT", undefined]) {
      expect(thrownCode(thrown)).toBeUndefined();
    }
  });
});
