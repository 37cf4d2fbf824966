import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { describe, expect, it } from "vitest";

import { runTool } from "../../scripts/run/tool.ts";
import { cliArguments } from "../../src/agent-kit/agent/options.ts";
import { startOfflineApi } from "../../src/agent-kit/offline-api.ts";
import { cacheFolder } from "../claude/install.ts";
import { bareOptions, claudeEnvironment } from "../claude/session.ts";

const root = resolve(import.meta.dirname, "../..");

describe("the suite for the real CLI", () => {
  it("[IP-070] says visibly that nothing was tested where the CLI cannot be installed", async () => {
    const folder = mkdtempSync(join(tmpdir(), "headgate-nothing-"));
    try {
      // A registry that nobody answers for, and an empty cache.
      const { exitCode, output } = await runTool(["node", "test/claude/run.ts"], {
        cwd: root,
        env: {
          XDG_CACHE_HOME: folder,
          npm_config_registry: "http://127.0.0.1:9/",
          npm_config_cache: join(folder, "npm"),
          npm_config_fetch_retries: "0",
        },
      });
      expect([exitCode, output]).toEqual([
        0,
        expect.stringMatching(/^NOTICE the real Claude CLI was not tested, because it could not be installed/mu),
      ]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("[IP-070] keeps the CLI out of the repository and its dependencies", () => {
    expect(cacheFolder({ XDG_CACHE_HOME: "/cache" })).toBe(join("/cache", "headgate", "claude"));
    expect(cacheFolder({}).startsWith(root)).toBe(false);
  });

  it("[IP-071] starts it with a dummy key, rooms of its own, no settings and a bound on turns", async () => {
    const folder = mkdtempSync(join(tmpdir(), "headgate-rooms-"));
    try {
      await using api = await startOfflineApi([]);
      const environment = claudeEnvironment(api, folder);
      const { PATH: _path, HOME, CLAUDE_CONFIG_DIR, TMPDIR, ...others } = environment;
      expect([HOME, CLAUDE_CONFIG_DIR, TMPDIR].every((path) => path?.startsWith(folder))).toBe(true);
      expect(others).toEqual({
        ANTHROPIC_BASE_URL: api.url,
        ANTHROPIC_API_KEY: "offline",
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
        DISABLE_TELEMETRY: "1",
        DISABLE_ERROR_REPORTING: "1",
        DISABLE_AUTOUPDATER: "1",
      });
      expect(new URL(api.url).hostname).toBe("127.0.0.1");
      const args = cliArguments(bareOptions, { inProcess: new Map(), external: new Map() }).join(" ");
      expect(args).toMatch(/--max-turns 8 .*--setting-sources= .*--strict-mcp-config/u);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });
});

describe("the offline API", () => {
  const post = async (url: string, body: string) => fetch(url, { method: "POST", body });

  it("streams what the script says, and keeps what it was asked", async () => {
    await using api = await startOfflineApi([{ text: "hello", toolUses: [{ name: "t", input: { a: 1 } }] }]);
    const content = [{ type: "tool_result", tool_use_id: "toolu_9", content: "42" }];
    const asked = {
      model: "m",
      tools: [{ name: "t" }],
      messages: [
        { role: "user", content },
        { role: "user", content: "hi" },
      ],
    };
    const answer = await post(`${api.url}/v1/messages?beta=true`, JSON.stringify(asked));
    const text = await answer.text();
    const types = [...text.matchAll(/^event: (?<type>\w+)$/gmu)].map((match) => match.groups?.["type"]);
    expect(types).toEqual([
      "message_start",
      "content_block_start",
      "content_block_delta",
      "content_block_stop",
      "content_block_start",
      "content_block_delta",
      "content_block_stop",
      "message_delta",
      "message_stop",
    ]);
    expect(text).toContain('"stop_reason":"tool_use"');
    const [request] = api.requests;
    expect(request).toMatchObject({ index: 0, toolNames: ["t"] });
    expect(request?.toolResults.get("toolu_9")).toMatchObject({ content: "42" });
  });

  it("refuses what no script answers, and anything that is no message", async () => {
    await using api = await startOfflineApi([]);
    const answers = await Promise.all([
      post(`${api.url}/v1/messages`, "{}"),
      post(`${api.url}/v1/messages`, "nonsense"),
      post(`${api.url}/elsewhere`, "{}"),
      post(`${api.url}/v1/messages/count_tokens`, "{}"),
      fetch(`${api.url}/api/hello`, { method: "HEAD" }),
    ]);
    expect(answers.map(({ status }) => status)).toEqual([400, 404, 404, 200, 200]);
    expect(await answers[0]?.text()).toContain("the script has no reply 0");
  });

  it("stops a script that never ends, and reports one that fails", async () => {
    await using endless = await startOfflineApi(() => ({ text: "again" }));
    const statuses: number[] = [];
    for (let count = 0; count <= 100; count += 1) {
      statuses.push((await post(`${endless.url}/v1/messages`, "{}")).status);
    }
    expect([statuses[99], statuses[100]]).toEqual([200, 400]);
    await using broken = await startOfflineApi(() => {
      throw new Error("no idea");
    });
    expect(await (await post(`${broken.url}/v1/messages`, "{}")).text()).toContain("no idea");
  });
});
