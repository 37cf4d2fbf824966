// Runs the agent kit against the real Claude CLI, without a key and without a network: npm run test:claude [-- FILE…]
// Needs the registry once, to install the CLI into a cache; where that fails it says so and shows nothing.
import { resolve } from "node:path";

import { runTool } from "../../scripts/run/tool.ts";
import { peerCommands, pythonWithMcp } from "../support/peer-packages.ts";
import { installClaude } from "./install.ts";

const root = resolve(import.meta.dirname, "../..");
const suiteLimitMs = 8 * 60 * 1000;

const installed = await installClaude(process.env);
if (installed.ok) {
  // The tests themselves have no network.
  const peers = await Promise.allSettled([peerCommands(), pythonWithMcp()]);
  for (const one of peers) if (one.status === "rejected") console.log(`NOTICE ${String(one.reason)}`);
  const isolated = await canIsolate();
  if (!isolated) console.log("NOTICE no network namespace here: the CLI could reach a network if it tried");
  const report = ["--reporter=default", "--reporter=json", "--outputFile.json=.reports/claude.json"];
  const vitest = ["vitest", "run", "--config", "test/claude/vitest.config.ts", ...report] as const;
  const command = [...vitest, ...process.argv.slice(2)] as const;
  const { exitCode, output } = await runTool(isolated ? inNamespace(command) : command, {
    cwd: root,
    timeoutMs: suiteLimitMs,
    env: { HEADGATE_CLAUDE_CLI: installed.cli, HEADGATE_AGENT_SDK: installed.agentSdk },
  });
  console.log(output);
  process.exitCode = exitCode;
} else {
  console.log(`NOTICE the real Claude CLI was not tested, because it could not be installed: ${installed.reason}`);
}

async function canIsolate(): Promise<boolean> {
  return (await runTool(inNamespace(["true"]), { cwd: root })).exitCode === 0;
}

/** Runs a command where there is no network but loopback. */
function inNamespace(command: readonly string[]): readonly [string, ...string[]] {
  return ["unshare", "--map-root-user", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh", ...command];
}
