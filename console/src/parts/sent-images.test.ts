import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { imagesOf } from "./sent-images.ts";

describe("images of a server", () => {
  it("are found in results, resources and prompts", () => {
    const png = { mimeType: "image/png", data: "AA==" };
    const found = [{ type: "image/png", data: "AA==" }];
    for (const value of [
      {
        content: [
          { type: "text", text: "x" },
          { type: "image", ...png },
        ],
      },
      { contents: [{ uri: "x:y", mimeType: "image/png", blob: "AA==" }] },
      { messages: [{ role: "user", content: { type: "image", ...png } }] },
    ])
      expect(imagesOf(value)).toEqual(found);
  });

  it("are of formats without code only", () => {
    for (const mimeType of ["image/svg+xml", "text/html", "image/png;x", "IMAGE/PNG", "", 5, null])
      expect(imagesOf({ content: [{ mimeType, data: "AA==" }] })).toEqual([]);
    for (const data of [5, null, {}, undefined]) expect(imagesOf({ mimeType: "image/png", data })).toEqual([]);
  });

  it("are looked for in whatever was sent", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(imagesOf(value)).toEqual([]);
      }),
    );
  });
});
