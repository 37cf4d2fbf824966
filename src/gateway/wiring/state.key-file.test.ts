import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, describe, expect, it } from "vitest";

import { readOrCreateKey } from "./state.ts";

describe("a key file", () => {
  const home = mkdtempSync(join(tmpdir(), "headgate-key-"));
  afterAll(() => {
    rmSync(home, { recursive: true });
  });

  it("is made once, with its folder, and is private", () => {
    const file = join(home, "a", "b", "key");
    const key = readOrCreateKey(file);
    expect(key).toHaveLength(32);
    expect(readOrCreateKey(file)).toEqual(key);
    expect([statSync(file).mode & 0o777, statSync(join(home, "a", "b")).mode & 0o777]).toEqual([0o600, 0o700]);
    expect(readdirSync(join(home, "a", "b"))).toEqual(["key"]);
  });

  it.each(["", "short", "A".repeat(44)])("is refused, never replaced, where it holds no key: %j", (text) => {
    const file = join(home, "broken");
    writeFileSync(file, text);
    expect(() => readOrCreateKey(file)).toThrow(/not a key; delete the file/u);
  });
});
