import { describe, expect, it } from "vitest";

import { startAgent } from "./agent.ts";

describe("options without a type checker", () => {
  it.each<[options: unknown, problem: string]>([
    [{ canUseTol: () => ({}) }, "unknown option canUseTol; did you mean canUseTool?"],
    [{ disalowedTools: ["Bash"] }, "unknown option disalowedTools; did you mean disallowedTools?"],
    [{ disallowedTools: "Bash" }, "option disallowedTools must be a list of strings"],
    [{ canUseTool: true }, "option canUseTool must be a function"],
    [{ maxBudgetUsd: "5" }, "option maxBudgetUsd must be a number"],
    [{ hooks: [] }, "option hooks must be an object"],
    [null, "its options must be an object"],
  ])("reject before a process starts: %j", async (options, problem) => {
    await expect(startAgent(options as never)).rejects.toMatchObject({ code: "option_invalid", message: problem });
  });
});
