import { describe, expect, it } from "vitest";

import { socketPathProblem } from "./socket-path.ts";

describe("the path of a socket", () => {
  it.each([
    ["linux", `/${"x".repeat(106)}`],
    ["darwin", `/${"x".repeat(102)}`],
    ["win32", String.raw`\\.\pipe\headgate`],
    ["win32", String.raw`\\.\PIPE\${"x".repeat(200)}`],
  ] as const)("can be used on %s: %s", (platform, path) => {
    expect(socketPathProblem(path, platform)).toBeUndefined();
  });

  it.each([
    ["linux", `/${"x".repeat(107)}`, "at most 107 bytes"],
    ["linux", `/${"ä".repeat(54)}`, "at most 107 bytes"],
    ["darwin", `/${"x".repeat(103)}`, "at most 103 bytes"],
    ["win32", String.raw`C:\run\headgate.sock`, String.raw`\\.\pipe\headgate`],
  ] as const)("is refused on %s: %s", (platform, path, reason) => {
    expect(socketPathProblem(path, platform)).toContain(reason);
  });
});
