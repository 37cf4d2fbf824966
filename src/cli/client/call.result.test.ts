import { describe, expect, it } from "vitest";

import { formatResult } from "./call.ts";

describe("formatResult", () => {
  it("gives texts as they are, each ended by one line feed", () => {
    const content = [
      { type: "text" as const, text: "one" },
      { type: "text" as const, text: "two\n" },
      { type: "text" as const, text: "\u001B[1mthree" },
    ];
    expect(formatResult({ content })).toBe("one\ntwo\n\u001B[1mthree\n");
  });

  it("adds structured content as JSON, but not a second time", () => {
    const structuredContent = { sum: 5, parts: [2, 3] };
    expect(formatResult({ content: [{ type: "text", text: "five" }], structuredContent })).toBe(
      `five\n${JSON.stringify(structuredContent, undefined, 2)}\n`,
    );
    const repeated = JSON.stringify({ parts: [2, 3], sum: 5 });
    expect(formatResult({ content: [{ type: "text", text: repeated }], structuredContent })).toBe(`${repeated}\n`);
    expect(formatResult({ content: [], structuredContent: { sum: 0 } })).toBe('{\n  "sum": 0\n}\n');
  });

  it("says what it does not show", () => {
    expect(
      formatResult({
        content: [
          { type: "image", mimeType: "image/png", data: "AAAA" },
          { type: "audio", mimeType: "audio/wav", data: "AA==" },
          { type: "resource", resource: { uri: "harbor://berths", text: "[]" } },
          { type: "resource", resource: { uri: "harbor://map", blob: "AAA=" } },
          { type: "resource_link", name: "berth A1", uri: "harbor://berths/A1" },
        ],
      }),
    ).toBe(`[image/png, 3 B; see --json]
[audio/wav, 1 B; see --json]
[]
harbor://map [data, 2 B; see --json]
berth A1: harbor://berths/A1
`);
  });
});
