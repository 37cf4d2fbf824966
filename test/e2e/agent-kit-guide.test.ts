import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

import { describe, expect, it } from "vitest";

import { runTool } from "../../scripts/run/tool.ts";
import * as kit from "../../src/agent-kit/index.ts";
import { call, handshake, mcpResponse, opening, prompted, result, scripted } from "../support/agent-kit/dialogue.ts";

const root = resolve(import.meta.dirname, "../..");
const guide = readFileSync(join(root, "docs/guides/agent-kit.md"), "utf8");

/** The text of one section, its heading left out. */
function section(heading: string): string {
  const [, text = ""] = guide.split(`\n## ${heading}\n`);
  return text.split("\n## ")[0] ?? "";
}

describe("the guide of the agent kit", () => {
  it("takes a reader to an agent that uses their function, in code that runs", async () => {
    const [, code = ""] = /^```ts\n(?<code>[\s\S]*?)^```$/mu.exec(guide) ?? [];
    expect(code.split("\n").length).toBeLessThan(40);
    const folder = mkdtempSync(join(tmpdir(), "headgate-guide-"));
    try {
      const module = (path: string) => JSON.stringify(path);
      const file = join(folder, "example.mts");
      writeFileSync(
        file,
        code
          .replace('"headgate/agent-kit"', module(join(root, "src/agent-kit/index.ts")))
          .replace('"zod"', module(fileURLToPath(import.meta.resolve("zod")))),
      );
      using dialogue = scripted([
        { argv: ["--allowedTools", "mcp__shop"] },
        opening({ sdkMcpServers: ["shop"] }),
        prompted("Do we have tea?"),
        handshake("shop"),
        call("R1", "shop", 2, "in_stock", { item: "tea" }),
        mcpResponse("R1", { id: 2, result: { structuredContent: { item: "tea", count: 12 } } }),
        { cli: { type: "assistant", message: { content: "Yes, 12." } } },
        result("Yes, 12."),
      ]);
      const { exitCode, output } = await runTool(["node", file], {
        cwd: root,
        env: {
          SCRIPTED_DIALOGUE: dialogue.options.env?.["SCRIPTED_DIALOGUE"] ?? "",
          HEADGATE_CLAUDE_CLI: dialogue.options.cliPath ?? "",
        },
      });
      expect([exitCode, output]).toEqual([0, "Yes, 12.\n$0.01, 2 turns"]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("names only functions that there are", () => {
    const functions = [
      ...guide.matchAll(
        /\b(?<name>createServer|addTools|withJsonSchema|startAgent|startOfflineApi|bridgeControlChannel|query|tool)\b(?=[(`])/gu,
      ),
    ];
    const names = new Set(functions.map((match) => match.groups?.["name"] ?? ""));
    for (const name of names) expect([name, typeof Reflect.get(kit, name)]).toEqual([name, "function"]);
    expect(names.size).toBeGreaterThan(5);
  });

  it("lists every name that the kit exports", () => {
    const index = readFileSync(join(root, "src/agent-kit/index.ts"), "utf8");
    const names = [...index.matchAll(/^export (?:type )?\{(?<list>[^}]*)\}/gmu)].flatMap((match) =>
      (match.groups?.["list"] ?? "").split(",").map((name) => name.trim()),
    );
    const exported = names.filter((name) => name !== "");
    expect(exported.length).toBeGreaterThan(40);
    expect(exported.filter((name) => !section("What it exports").includes(`\`${name}\``))).toEqual([]);
  });

  it("[IP-086] shows both paths, who dispatches, and the limits", () => {
    const paths = section("Two paths to a server");
    expect(paths).toMatch(/^in process .*control channel/mu);
    expect(paths).toMatch(/^external .*process or URL/mu);
    expect(paths).toMatch(/official SDK dispatches everything/u);
    const limits = section("Limits");
    for (const limit of [
      /no client capabilities/iu,
      /deferred tools/iu,
      /no reconnect and no direct call/iu,
      /one agent per instance/iu,
    ]) {
      expect(limits).toMatch(limit);
    }
  });

  it("[IP-087] says what comes next, and what hand-routing designs should drop", () => {
    const next = section("What comes next");
    expect(next).toMatch(/2026-07-28/u);
    expect(next).toMatch(/accepts a transport directly/u);
    expect(next).toMatch(/only the bridge changes/u);
    expect(next).toMatch(/Go and Python[\s\S]*drop the\s+switch over method names/u);
  });
});
