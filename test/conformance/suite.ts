import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

import { z } from "zod";

import { runTool } from "../../scripts/run/tool.ts";

/** What the suite says of one check. */
export type Status = "SUCCESS" | "FAILURE" | "WARNING" | "SKIPPED" | "INFO";

/** One check of a scenario. The same id may come several times, the same name too. */
export interface Check {
  readonly id: string;
  readonly name: string;
  readonly status: Status;
  readonly errorMessage?: string | undefined;
}

/** The checks of every scenario that ran. */
export type Outcome = ReadonlyMap<string, readonly Check[]>;

/** A run of the suite. */
export interface SuiteRun {
  readonly outcome: Outcome;
  /** Whether the suite itself is content, by the rules of its selection. */
  readonly accepted: boolean;
}

const root = resolve(import.meta.dirname, "../..");
const conformance = fileURLToPath(import.meta.resolve("@modelcontextprotocol/conformance/dist/index.js"));
const timeoutMs = 180_000;

const checks = z.array(
  z.object({
    id: z.string(),
    name: z.string(),
    status: z.enum(["SUCCESS", "FAILURE", "WARNING", "SKIPPED", "INFO"]),
    errorMessage: z.string().optional(),
  }),
);

/** Runs the selected scenarios against a server. Throws when the suite could not run at all. */
export async function runSuite(url: string, selection: readonly string[]): Promise<SuiteRun> {
  const folder = await mkdtemp(join(tmpdir(), "headgate-conformance-"));
  try {
    const { exitCode, output } = await runTool(
      [process.execPath, conformance, "server", "--url", url, ...selection, "-o", folder],
      {
        cwd: root,
        timeoutMs,
      },
    );
    const outcome = await readOutcome(folder);
    if (outcome.size === 0) throw new Error(`the conformance suite ran nothing:\n${output}`);
    return { outcome, accepted: exitCode === 0 };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

const clientMain = join(import.meta.dirname, "client/main.ts");

/** Runs scenarios for clients, one after the other: our client calls the suite's server, itself or through a gateway. */
export async function runClientScenarios(
  scenarios: readonly string[],
  selection: readonly string[],
  isThroughGateway: boolean,
): Promise<SuiteRun> {
  const outcome = new Map<string, readonly Check[]>();
  let accepted = true;
  for (const scenario of scenarios) {
    const folder = await mkdtemp(join(tmpdir(), "headgate-conformance-"));
    try {
      const command = [process.execPath, clientMain, ...(isThroughGateway ? ["--gateway"] : [])].join(" ");
      const options = ["--scenario", scenario, "--command", command, "-o", folder];
      const { exitCode, output } = await runTool([process.execPath, conformance, "client", ...selection, ...options], {
        cwd: root,
        timeoutMs,
      });
      const found = (await readOutcome(folder)).get(scenario);
      if (found === undefined) throw new Error(`the conformance suite did not run ${scenario}:\n${output}`);
      outcome.set(scenario, found);
      accepted &&= exitCode === 0;
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  }
  return { outcome, accepted };
}

async function readOutcome(folder: string): Promise<Outcome> {
  const outcome = new Map<string, readonly Check[]>();
  for (const name of await readdir(folder)) {
    // Each scenario has a folder, named after it and the time it began.
    const scenario = /^(?:server-)?(.+)-\d{4}-\d{2}-\d{2}T[\d-]+Z$/u.exec(name)?.[1];
    if (scenario !== undefined) outcome.set(scenario, await readChecks(join(folder, name, "checks.json"), scenario));
  }
  return outcome;
}

async function readChecks(file: string, scenario: string): Promise<readonly Check[]> {
  let text: string;
  try {
    text = await readFile(file, "utf8");
  } catch {
    // A scenario that throws leaves an empty folder.
    return [{ id: scenario, name: "Ran", status: "FAILURE", errorMessage: "the scenario broke off" }];
  }
  return checks.parse(JSON.parse(text));
}
