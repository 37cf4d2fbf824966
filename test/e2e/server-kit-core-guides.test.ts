import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";

import { describe, expect, it } from "vitest";

import { runTool } from "../../scripts/run/tool.ts";
import { failureStatus } from "../../src/server-kit/entity/failure.ts";
import { operationNames } from "../../src/server-kit/entity/entity.ts";
import { settingsSchema } from "../../src/server-kit/settings/settings.ts";
import { startProcess, type RunningProcess } from "../support/process.ts";

const root = resolve(import.meta.dirname, "../..");
const source = JSON.stringify(join(root, "src/server-kit/index.ts"));
const quickStart = readFileSync(join(root, "docs/guides/server-kit.md"), "utf8");
const entities = readFileSync(join(root, "docs/guides/server-kit-entities.md"), "utf8");

function blocks(page: string, language: string): readonly string[] {
  return [...page.matchAll(new RegExp(`^\`\`\`${language}\n([^]*?)^\`\`\`$`, "gmu"))].map(([, code = ""]) => code);
}

/** A folder inside the repository, so that code in it finds its packages. */
function createFolder(): { readonly path: string; readonly [Symbol.dispose]: () => void } {
  mkdirSync(join(root, ".reports"), { recursive: true });
  const path = mkdtempSync(join(root, ".reports/guide-"));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true }) };
}

async function startCode(code: string, folder: string): Promise<RunningProcess> {
  const file = join(folder, "server.mts");
  writeFileSync(file, code.replaceAll('"headgate/server-kit"', source));
  return startProcess([process.execPath, file], { cwd: folder, env: { PORT: "0" } });
}

/** Runs the commands of the guide against another address than the one it names. */
async function runCommands(commands: string, url: string, folder: string): Promise<string> {
  const script = commands.replaceAll("localhost:5110", url.replace("http://", ""));
  const { exitCode, output } = await runTool(["sh", "-eu", "-c", script], { cwd: folder, timeoutMs: 100_000 });
  expect([exitCode, output]).toEqual([0, output]);
  return output;
}

const [server = "", secured = ""] = blocks(quickStart, "ts");
const [, call = "", open = "", post = "", login = ""] = blocks(quickStart, "sh");

describe("the quick start", () => {
  it("[KO-147] serves an entity, and its commands call it and show the traffic", async () => {
    using folder = createFolder();
    await using running = await startCode(server, folder.path);
    const [, url = ""] = await running.waitForLine(/listening on (http\S+)/u);
    const called = await runCommands(call, url, folder.path);
    expect(called).toContain('"TrialSite_List"');
    expect(called).toContain('{"items":[{"id":');
    const traffic = await runCommands(`${open}\n${post}`, url, folder.path);
    expect(traffic).toMatch(/^202$/mu);
    expect(traffic).toMatch(/^event: connected$[^]*^event: ack$\ndata: \{"id":1\}[^]*^event: result$/mu);
    expect(traffic).toContain("Fjord Clinic");
  });

  it("[KO-147] asks for a login, and its commands log in", async () => {
    using folder = createFolder();
    await using running = await startCode(secured, folder.path);
    const [, url = ""] = await running.waitForLine(/listening on (http\S+)/u);
    const output = await runCommands(login, url, folder.path);
    expect(output).toContain("401 Unauthorized");
    expect(output.toLowerCase()).toContain("www-authenticate: bearer resource_metadata=");
    expect(output).toContain('"TrialSite_Delete"');
  });
});

describe("the guide to entities", () => {
  it.each(blocks(entities, "ts").map((code, index) => [index + 1, code] as const))(
    "has block %i, which runs to its end",
    async (_, code) => {
      using folder = createFolder();
      await using running = await startCode(code, folder.path);
      expect([(await running.exited).code, running.output()]).toEqual([0, running.output()]);
    },
  );

  it("names every setting, operation and failure code", () => {
    const named = [...Object.keys(settingsSchema.shape), ...Object.keys(failureStatus)].map((name) => `\`${name}\``);
    const operations = operationNames.filter((name) => !new RegExp(`\\b${name}\\b`, "u").test(entities));
    expect([...named.filter((name) => !entities.includes(name)), ...operations]).toEqual([]);
    for (const [code, status] of Object.entries(failureStatus)) {
      expect(entities).toMatch(new RegExp(`\`${code}\`\\s*\\| ${status}`, "u"));
    }
  });
});
