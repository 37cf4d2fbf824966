import { readFileSync } from "node:fs";
import { resolve } from "node:path";

import { describe, expect, it } from "vitest";

import { correlationStates } from "../../src/sessions/pending/states.ts";
import { renderCorrelationPage } from "./correlation.ts";

describe("the page of correlation", () => {
  const page = renderCorrelationPage();

  it("[SC-074] is what the tables in the code say", () => {
    const file = resolve(import.meta.dirname, "../../docs/reference/correlation.md");
    expect(readFileSync(file, "utf8")).toBe(page);
  });

  it("[SC-074] draws every state, and the moves that all open exchanges share once", () => {
    const diagram = /```mermaid\n(?<text>.*?)```/su.exec(page)?.groups?.["text"] ?? "";
    for (const state of Object.keys(correlationStates)) expect(diagram).toContain(`--> ${state}: `);
    expect(diagram).toContain("    [*] --> pending: a request\n");
    expect(diagram).toContain("    pending --> streaming: ");
    expect(diagram).toContain("  open --> ok: a result\n");
    expect(diagram).toContain("  [*] --> orphan: ");
    expect(diagram.match(/--> timed_out/gu)).toHaveLength(1);
  });

  it("has a line for every state", () => {
    for (const [state, { meaning }] of Object.entries(correlationStates)) {
      expect(page).toMatch(new RegExp(`^\\| \`${state}\` .* \\| ${meaning} \\|$`, "mu"));
    }
  });
});
