import { resolve } from "node:path";

import { beforeAll, describe, expect, it } from "vitest";

import { runTool } from "../../scripts/run/tool.ts";
import { peerCommands } from "../support/peer-packages.ts";
import { serveTestKit } from "../support/served-kit.ts";

const root = resolve(import.meta.dirname, "../..");

describe("the Inspector's command line on a kit", () => {
  let commands: Awaited<ReturnType<typeof peerCommands>>;
  beforeAll(async () => {
    commands = await peerCommands();
  }, 300_000);

  async function inspect(...args: readonly string[]): Promise<unknown> {
    const { exitCode, output } = await runTool([...commands["@modelcontextprotocol/inspector"], "--cli", ...args], {
      cwd: root,
      timeoutMs: 100_000,
      env: { HOME: resolve(root, "node_modules/.cache/headgate-peers") },
    });
    if (exitCode !== 0) throw new Error(output);
    return JSON.parse(output.slice(output.indexOf("{")));
  }

  it.each([
    ["HTTP+SSE", "sse", "/sse"],
    ["Streamable HTTP", "http", ""],
  ])("[KO-056] lists and calls over %s", { timeout: 240_000 }, async (_title, transport, path) => {
    await using kit = await serveTestKit();
    const target = [`${kit.url}${path}`, "--transport", transport];
    expect(await inspect(...target, "--method", "tools/list")).toMatchObject({
      tools: expect.arrayContaining([expect.objectContaining({ name: "TrialSite_List" })]),
    });
    const call = ["--method", "tools/call", "--tool-name", "TrialSite_List", "--tool-arg", "pageSize=2"];
    expect(await inspect(...target, ...call)).toMatchObject({ structuredContent: { items: [{}, {}] } });
  });
});
