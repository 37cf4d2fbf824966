import { resolve } from "node:path";
import { describe, expect, it } from "vitest";

import { startProcess } from "../support/process.ts";

const run = resolve(import.meta.dirname, "../../examples/cel/run.ts");

describe("the example with rules", () => {
  it("runs end to end: calls, answers and lists come out as its rules say", async () => {
    await using example = await startProcess([process.execPath, run]);
    const { code } = await example.exited;
    expect([code, example.output()]).toEqual([0, expect.stringContaining("every rule did what it says")]);
  });
});
