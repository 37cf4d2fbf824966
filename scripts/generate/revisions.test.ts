import { readFileSync } from "node:fs";
import { resolve } from "node:path";

import { describe, expect, it } from "vitest";

import { renderRevisionTables } from "./revisions.ts";

describe("the page of revisions", () => {
  const page = renderRevisionTables();

  it("[SC-074] is what the tables in the code say", () => {
    const file = resolve(import.meta.dirname, "../../docs/reference/revisions.md");
    expect(readFileSync(file, "utf8")).toBe(page);
  });

  it("[SC-074] has a line for every fact and every method", () => {
    expect(page).toContain("| Batches | no | yes | no | no | no |");
    expect(page).toContain("| `tools/call` | client to server | yes | yes | yes | yes | yes | `params.name` | tool |");
    expect(page).toContain("| `notifications/progress` | both ways; modern: server to client |");
  });
});
