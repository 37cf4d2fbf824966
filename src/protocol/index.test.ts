import { readFileSync } from "node:fs";
import { expect, it } from "vitest";

import * as api from "./index.ts";

it("exports exactly what the guide lists", () => {
  const guide = readFileSync(new URL("../../docs/guides/protocol.md", import.meta.url), "utf8");
  const table = guide.slice(guide.indexOf("## All exports"));
  const listed = [...table.matchAll(/`(\w+)`/gu)].map(([, name]) => name);
  expect(new Set(listed)).toEqual(new Set(Object.keys(api)));
});
