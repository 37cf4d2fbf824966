import { extname } from "node:path";

import { parse as parseYaml } from "yaml";
import * as z from "zod";

import { loadConfig } from "../../config/load.ts";
import { formatProblem } from "../../config/problem.ts";
import { reasonOf } from "../../config/substitute.ts";
import { GatewayError } from "../../errors.ts";
import type { Principal } from "../../core/exchange.ts";
import { exitCodes } from "../commands.ts";
import type { ServingIo } from "../io.ts";
import { colorsFor } from "../colors.ts";
import { formatPolicyReport } from "./change-report.ts";
import { chooseRoute, principalInput, toPrincipal, createRouteProvider } from "./sample-exchange.ts";
import { createProgressBar } from "../text-layout.ts";
import { readLines } from "../traffic/recordings.ts";
import { replayPolicy } from "./recording-evaluation.ts";

/** What `headgate policy replay` is asked for. */
export interface PolicyReplayArguments {
  readonly capture: string;
  readonly config: string;
  readonly route: string | undefined;
  /** A file with what is known of callers, by their ids. */
  readonly principals: string | undefined;
  /** Whether what cannot be decided fails as well. */
  readonly strict: boolean;
  readonly json: boolean;
}

/** The outside world as the command uses it. */
export type PolicyReplayIo = Pick<ServingIo, "out" | "err" | "env" | "readFile"> &
  Partial<Pick<ServingIo, "stdout" | "isTerminal">>;

/** `headgate policy replay`: what a policy would do to traffic that was recorded. */
export async function policyReplay(words: PolicyReplayArguments, io: PolicyReplayIo): Promise<number> {
  const loaded = await loadConfig({ file: words.config, env: io.env, readFile: io.readFile });
  if (!loaded.ok) {
    for (const problem of loaded.problems) io.err(`${formatProblem(problem, words.config)}\n`);
    return exitCodes.config.code;
  }
  const { config } = loaded;
  const chosen = words.route === undefined ? undefined : chooseRoute(config, words.route);
  const callers = await readCallers(words.principals, io);
  // A route without rules allows everything, which is a policy too; one that asks elsewhere cannot be tried here.
  const remote = Object.values(config.routes).find(({ policy }) => policy?.pingAuthorize !== undefined);
  const problem =
    chosen?.ok === false
      ? chosen.problem
      : typeof callers === "string"
        ? callers
        : remote === undefined
          ? undefined
          : problemOf(createRouteProvider(remote));
  if (problem !== undefined || typeof callers === "string") {
    io.err(`headgate policy: ${problem ?? ""}\n`);
    return exitCodes.config.code;
  }
  const [only, another] = Object.values(config.routes);
  const route = chosen?.ok === true ? chosen.route : another === undefined ? only : undefined;
  try {
    using bar = createProgressBar("exchanges", io);
    const report = await replayPolicy(readLines(words.capture, io), {
      config,
      route,
      callers,
      onProgress: (done) => {
        bar.show(done, undefined);
      },
    });
    io.out(words.json ? `${JSON.stringify(report)}\n` : formatPolicyReport(report, colorsFor(io)));
    const { undecidable, ...changes } = report.counts;
    const changed = Object.values(changes).reduce((sum, count) => sum + count, 0);
    return changed > 0 || (words.strict && undecidable > 0) ? exitCodes.usage.code : exitCodes.ok.code;
  } catch (error) {
    const failure = GatewayError.from(error);
    if (failure.code !== "store_failed" && failure.code !== "config_invalid") throw error;
    io.err(`headgate policy: ${failure.message}\n`);
    return exitCodes.config.code;
  }
}

function problemOf(rules: ReturnType<typeof createRouteProvider>): string | undefined {
  return rules.ok ? undefined : rules.problem;
}

const callersInput = z.record(z.string(), principalInput.omit({ id: true }));

/** What is known of callers beyond what a recording keeps; what is wrong with the file as a text. */
async function readCallers(
  file: string | undefined,
  io: PolicyReplayIo,
): Promise<ReadonlyMap<string, Principal> | string> {
  if (file === undefined) return new Map();
  try {
    const text = await io.readFile(file);
    const value: unknown = extname(file).toLowerCase() === ".json" ? JSON.parse(text) : parseYaml(text);
    const checked = callersInput.safeParse(value);
    if (!checked.success) return `${file}: ${z.prettifyError(checked.error)}`;
    return new Map(Object.entries(checked.data).map(([id, facts]) => [id, toPrincipal({ id, ...facts })]));
  } catch (error) {
    return `${file} cannot be read: ${reasonOf(error)}`;
  }
}
