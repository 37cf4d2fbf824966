import { describe, expect, it } from "vitest";

import { formatProblem } from "../issues.ts";
import { loadConfig } from "../load.ts";

async function warningsOf(policy: string): Promise<readonly string[]> {
  const text = `upstream: { demo: true }\npolicy: ${policy}\n`;
  const result = await loadConfig({ text, format: "yaml", env: {}, readFile: () => Promise.resolve("") });
  if (!result.ok) throw new Error(result.problems.map((problem) => formatProblem(problem)).join("\n"));
  return result.warnings.map((warning) => formatProblem(warning));
}

const ruleOf = (condition: string): string => JSON.stringify({ rules: [{ allow: condition }] });

describe("rules about values that cannot be", () => {
  it.each<[condition: string, message: string]>([
    ['mcp.method == "tool/call"', '`mcp.method` is never "tool/call"; did you mean "tools/call"?'],
    ['"tools/run" == mcp.method', '`mcp.method` is never "tools/run"; MCP has no such method'],
    [
      'mcp.method in ["tools/call", "resource/read"]',
      '`mcp.method` is never "resource/read"; did you mean "resources/read"?',
    ],
    ['mcp.direction == "c2s"', '`mcp.direction` is never "c2s"; it is one of "client-to-server", "server-to-client"'],
    ['mcp.kind == "requests"', '`mcp.kind` is never "requests"; did you mean "request"?'],
    [
      'principal.kind == "jwt"',
      '`principal.kind` is never "jwt"; it is one of "anonymous", "token", "key", "certificate"',
    ],
    [
      'request.transport.startsWith("https")',
      '`request.transport` never matches "https"; it is one of "http", "sse", "stdio", "in-process"',
    ],
    [
      'mcp.tool == "read_*"',
      '`mcp.tool` is never "read_*": `*` is no pattern here; write `mcp.tool.startsWith("read_")`',
    ],
  ])("are warned of: %s", async (condition, message) => {
    const [warning = "", ...more] = await warningsOf(ruleOf(condition));
    expect(more).toEqual([]);
    expect(warning).toMatch(/^2:\d+ policy\.rules\[0\]\.allow: /u);
    expect(warning.replace(/^.*?allow: /u, "")).toBe(message);
  });

  it.each([
    'mcp.method == "tools/call" || mcp.method == "acme/run"',
    'mcp.method.startsWith("notifications/")',
    'mcp.method != "" && mcp.direction == "server-to-client"',
    'mcp.tool == "read" || mcp.tool.startsWith("read_")',
    'mcp.arguments.glob == "a*"',
    "mcp.method == mcp.arguments.method",
    '["x"].exists(mcp, mcp == "tool/call")',
    'principal.kind in ["key", "token"]',
  ])("are not seen in: %s", async (condition) => {
    expect(await warningsOf(ruleOf(condition))).toEqual([]);
  });
});

describe("a policy without rules", () => {
  it("is said to refuse everything", async () => {
    expect(await warningsOf("{ rules: [] }")).toEqual([
      expect.stringMatching(/policy\.rules: is empty, so everything is refused/u),
    ]);
    for (const policy of ["{ results: [] }", "{ rules: [{ allow: 'true' }] }", "{ tools: { deny: [x] } }"])
      expect(await warningsOf(policy)).toEqual([]);
  });
});

describe("rules that are never reached", () => {
  it.each<[policy: string, place: string]>([
    ["{ rules: [{ id: all, allow: 'true' }, { deny: 'false' }] }", "policy.rules[1]: is never reached: `all` above"],
    ["{ rules: [{ deny: ' true ' }, { allow: 'true' }] }", "policy.rules[1]: is never reached: `rules[0]` above"],
    ["{ results: [{ allow: 'true' }, { deny: 'false' }] }", "policy.results[1]: is never reached: `results[0]` above"],
    ["{ lists: [{ allow: 'true' }, { deny: 'false' }] }", "policy.lists[1]: is never reached: `lists[0]` above"],
  ])("are warned of: %s", async (policy, place) => {
    expect(await warningsOf(policy)).toEqual([expect.stringContaining(place)]);
  });

  it.each([
    "{ rules: [{ deny: 'false' }, { allow: 'true' }] }",
    "{ rules: [{ apply: 'true', redact: [/a] }, { allow: 'true' }] }",
    "{ rules: [{ allow: 'true', shadow: true }, { deny: 'false' }] }",
  ])("are not seen in: %s", async (policy) => {
    expect(await warningsOf(policy)).toEqual([]);
  });
});
