import { describe, expect, it } from "vitest";

import { createProgressBar, formatProgress } from "./text-layout.ts";

function shown(isTerminal: boolean): string {
  let [text, time] = ["", 0];
  {
    const err = (piece: string): void => void (text += piece);
    using bar = createProgressBar("work", { err, isTerminal }, () => time);
    for (let done = 1; done <= 10; done++) {
      time += 40;
      bar.show(done, 10);
    }
  }
  return text;
}

describe("a progress bar", () => {
  it("shows how much is done, or how many where the end is not known", () => {
    expect(formatProgress("work", 15, 30)).toBe(`work [${"#".repeat(15)}${"-".repeat(15)}] 50%`);
    expect(formatProgress("work", 1234, undefined)).toBe("work 1,234");
  });

  it("is drawn now and then on a terminal, and wiped away in the end", () => {
    const text = shown(true);
    expect(text.match(/%/gu)).toHaveLength(4);
    expect(text).toContain("100%");
    expect(text.endsWith("\r\u001B[2K")).toBe(true);
  });

  it("is not drawn where nobody looks", () => {
    expect(shown(false)).toBe("");
  });
});
