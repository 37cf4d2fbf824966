import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { toErrorText } from "./server.ts";

function thrownBy(run: () => unknown): Error {
  try {
    run();
  } catch (error) {
    if (error instanceof Error) return error;
  }
  throw new Error("nothing was thrown");
}

describe("toErrorText", () => {
  it("[IP-052] removes stack traces", () => {
    const error = new Error("broken\n    at run (/usr/app/tools.ts:3:7)\n    at main (/usr/app/main.ts:9:1)");
    expect(toErrorText(error)).toBe("broken");
    expect(toErrorText("a text")).toBe("a text");
  });

  it.each([
    ["cannot load file:///usr/app/x.mjs now", "cannot load <path> now"],
    ["see /usr/app/x.ts:12:4 and C:\\app\\y.ts:3", "see <path> and <path>"],
    [
      "failed: ENOENT: no such file or directory, open '/nowhere/my secret/key.pem'",
      "failed: ENOENT: no such file or directory, open '<path>'",
    ],
    [
      "EXDEV: cross-device link not permitted, rename 'a/b' -> '/nowhere/c'",
      "EXDEV: cross-device link not permitted, rename '<path>'",
    ],
    ['cannot read "/usr/share/my files/x" twice', 'cannot read "<path>" twice'],
    ["config=/etc/headgate/keys.yaml, retry", "config=<path>, retry"],
    ["(/usr/lib/x.so)", "(<path>)"],
  ])("[IP-052] hides paths of this machine: %s", (message, shown) => {
    expect(toErrorText(new Error(message))).toBe(shown);
  });

  it("[IP-052] hides the path of a system error, also behind others", () => {
    const system = thrownBy(() => readFileSync("/nowhere/secret/key.pem"));
    expect(toErrorText(system)).not.toContain("secret");
    const wrapped = new Error(`no key at /nowhere/secret/key.pem: ${system.message}`, { cause: system });
    expect(toErrorText(wrapped)).not.toContain("secret");
    const several = new AggregateError([wrapped], "tried /nowhere/secret/key.pem");
    expect(toErrorText(several)).toBe("tried <path>");
  });

  it.each([
    "Path `email` is required.",
    "16/9:1 see https://example.com/docs/x:80",
    "GET /api/items answered 404",
    "GET https://example.com/etc/passwd failed",
    "read/write and/or nothing",
    "expected //comment, got 1/2/3",
    "s3://bucket/usr/x is gone",
    "rate 5/s, at 10:30",
    "~/notes/x.md is yours",
  ])("[IP-052] leaves everything else as it is: %s", (message) => {
    const error = Object.assign(new Error(message), { path: "email" });
    expect(toErrorText(error)).toBe(message);
  });
});
