import { describe, expect, it } from "vitest";

import { hiddenCharacter as shown } from "../../../console/src/text.ts";
import { hiddenCharacter } from "./compare.ts";

describe("hidden characters", () => {
  it.each([
    0x00, 0x0b, 0x0d, 0x1b, 0x7f, 0x9b, 0xad, 0x34f, 0x61c, 0x115f, 0x1160, 0x17b4, 0x180e, 0x200b, 0x200d, 0x200e,
    0x2028, 0x202e, 0x2060, 0x2066, 0x206f, 0x3164, 0xfe00, 0xfeff, 0xffa0, 0xfff9, 0x1d173, 0xe0001, 0xe0041, 0xe0100,
    0xe01ef,
  ])("include U+%s", (code) => {
    expect(hiddenCharacter.test(`a${String.fromCodePoint(code)}b`)).toBe(true);
  });

  it("are the same in the console", () => {
    expect(String(shown)).toBe(String(hiddenCharacter));
  });

  it("do not include what people write", () => {
    for (const text of ["Zürich\t\n", "日本語 עברית हिन्दी", "❤️ → “x” …", "a b c"])
      expect(hiddenCharacter.test(text)).toBe(false);
  });
});
