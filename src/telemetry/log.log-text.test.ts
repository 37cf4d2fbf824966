import { describe, expect, it } from "vitest";

import { formatLogLine } from "./log.ts";

const plain = { color: false };

function line(fields: object): string {
  return `${JSON.stringify({ level: "info", time: "2026-11-15T12:03:04.005Z", ...fields })}\n`;
}

describe("a log line for people", () => {
  it("has the time of day, the level, the message and the other fields", () => {
    expect(formatLogLine(line({ msg: "started", port: 8484, route: "files" }), plain)).toMatch(
      /^\d\d:\d\d:04\.005 info {2}started port=8484 route=files\n$/u,
    );
  });

  it("quotes values that would not stand out otherwise", () => {
    expect(formatLogLine(line({ msg: "x", a: "two words", b: "", c: "k=v" }), plain)).toContain(
      'a="two words" b="" c="k=v"',
    );
  });

  it("lets no text from outside steer the terminal or fake a line", () => {
    const text = formatLogLine(line({ msg: "a\u001B[2Jb\nc", name: "\u202Eevil\u009B", sep: "\u2028" }), plain);
    expect(text.slice(0, -1)).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}]/u);
    expect(text).toContain(String.raw`a\u001b[2Jb\u000ac`);
  });

  it("colours the level only when asked to", () => {
    const warning = line({ level: "warn", msg: "x" });
    expect(formatLogLine(warning, plain)).not.toContain("\u001B");
    expect(formatLogLine(warning, { color: true })).toContain("\u001B[33mwarn \u001B[39m");
  });

  it("shows what is no log line as it is", () => {
    expect(formatLogLine("not json\n", plain)).toBe("not json\n");
    expect(formatLogLine("3\n", plain)).toBe("3\n");
  });
});
