import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

import { describe, expect, it } from "vitest";

import { createCalculator } from "../../examples/calculator/calculator.ts";
import { runTool } from "../../scripts/run/tool.ts";
import { agentSdkPath, cliPath, openSession } from "./session.ts";

const root = resolve(import.meta.dirname, "../..");

/** The part of the official agent SDK that the test needs. */
interface AgentSdk {
  readonly query: (input: object) => AsyncIterable<Readonly<Record<string, unknown>>>;
}

describe("the official agent SDK", () => {
  it("[IP-074] takes a server of ours as its own kind of instance", async () => {
    await using session = await openSession(({ index }) =>
      index === 0 ? { toolUses: [{ id: "toolu_0", name: "mcp__calc__add", input: { a: 15, b: 27 } }] } : { text: "42" },
    );
    const sdk = (await import(pathToFileURL(agentSdkPath()).href)) as AgentSdk;
    const messages: Readonly<Record<string, unknown>>[] = [];
    const { env, cwd, maxTurns, model } = session.options;
    const options = {
      mcpServers: { calc: { type: "sdk", name: "calc", instance: createCalculator() } },
      allowedTools: ["mcp__calc"],
      tools: [],
      settingSources: [],
      pathToClaudeCodeExecutable: cliPath(),
      env,
      cwd,
      maxTurns,
      model,
    };
    for await (const message of sdk.query({ prompt: "What is 15 + 27?", options })) messages.push(message);
    expect(messages.at(-1)).toMatchObject({ type: "result", subtype: "success", result: "42" });
    expect(JSON.stringify(session.api.requests.at(-1)?.toolResults.get("toolu_0"))).toContain("42");
  });
});

describe("the calculator example with the real CLI", () => {
  it("[IP-073] prints the conversation and the result", async () => {
    await using session = await openSession([]);
    // The Node of this repository stays first on the path.
    const { PATH: _path, ...env } = session.options.env ?? {};
    const { exitCode, output } = await runTool(["node", "examples/calculator/run.ts"], {
      cwd: root,
      env: { ...(env as Record<string, string>), ANTHROPIC_API_KEY: "", HEADGATE_CLAUDE_CLI: cliPath() },
    });
    expect([exitCode, output]).toEqual([0, expect.stringContaining("Result: 15 + 27 is 42.")]);
    expect(output).toMatch(/Cost: \$\d+\.\d{6}\nTurns: \d+$/u);
    expect(output).toContain("Error: Division by zero");
  });
});
