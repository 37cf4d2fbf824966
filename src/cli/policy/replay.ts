import { extname } from "node:path";

import { parse as parseYaml } from "yaml";
import * as z from "zod";

import { reasonOf } from "../../config/substitute.ts";
import type { Principal } from "../../core/exchange.ts";
import {
  type ChangeGroup,
  type ChangeKind,
  changeKinds,
  type PolicyReport,
} from "../../gateway/evaluation/change-report.ts";
import { replayPolicy } from "../../gateway/evaluation/recording-evaluation.ts";
import { chooseRoute, createRouteProvider, principalKind } from "../../gateway/evaluation/sample-exchange.ts";
import { exitCodes } from "../commands.ts";
import { InputFileError, loadConfigFile } from "../define-command.ts";
import { type Colors, colorsFor, type CommandIo } from "../io.ts";
import { createProgressBar, printableLine } from "../text-layout.ts";
import { readLines } from "../traffic/recordings.ts";

/** The arguments of `headgate policy replay`. */
export interface PolicyReplayArguments {
  readonly capture: string;
  readonly config: string;
  readonly route: string | undefined;
  /** A file with scopes and claims of principals, by id or short name. */
  readonly principals: string | undefined;
  /** Whether to fail if something cannot be decided. */
  readonly strict: boolean;
  readonly json: boolean;
}

/** `headgate policy replay`: what a policy would do to recorded traffic. */
export async function policyReplay(args: PolicyReplayArguments, io: CommandIo): Promise<number> {
  const config = await loadConfigFile(args.config, io);
  const routes = Object.values(config.routes);
  const route = args.route === undefined && routes.length > 1 ? undefined : chooseRoute(config, args.route);
  // A route without a policy allows everything and can be replayed; one with a remote decision point cannot.
  for (const one of routes) if (one.policy !== undefined) createRouteProvider(one);
  using bar = createProgressBar("exchanges", io);
  const report = await replayPolicy(readLines(args.capture, io), {
    config,
    route,
    callers: await readPrincipals(args.principals, io),
    onProgress: (done) => {
      bar.show(done, undefined);
    },
  });
  io.out(args.json ? `${JSON.stringify(report)}\n` : formatPolicyReport(report, colorsFor(io)));
  const { undecidable, ...changes } = report.counts;
  const changed = Object.values(changes).reduce((sum, count) => sum + count, 0);
  return changed > 0 || (args.strict && undecidable > 0) ? exitCodes.failed.code : exitCodes.ok.code;
}

const principalsInput = z.record(
  z.string(),
  z.strictObject({
    kind: principalKind.default("token"),
    scopes: z.array(z.string()).default([]),
    claims: z.record(z.string(), z.unknown()).default({}),
  }),
);

/** Scopes and claims of principals, which recordings do not contain. */
async function readPrincipals(file: string | undefined, io: CommandIo): Promise<ReadonlyMap<string, Principal>> {
  if (file === undefined) return new Map();
  let value: unknown;
  try {
    const text = await io.readFile(file);
    value = extname(file).toLowerCase() === ".json" ? JSON.parse(text) : parseYaml(text);
  } catch (error) {
    throw new InputFileError(`${file} cannot be read: ${reasonOf(error)}`);
  }
  const parsed = principalsInput.safeParse(value);
  if (!parsed.success) throw new InputFileError(`${file}: ${z.prettifyError(parsed.error)}`);
  return new Map(
    Object.entries(parsed.data).map(([id, facts]) => [id, { id, ...facts, scopes: new Set(facts.scopes) }]),
  );
}

const changeColors: Readonly<Record<ChangeKind, keyof Colors>> = {
  "newly-denied": "red",
  "newly-allowed": "green",
  "list-hidden": "red",
  "list-shown": "green",
  "arguments-changed": "yellow",
  "answer-changed": "yellow",
  undecidable: "cyan",
};

/** The report as text. */
function formatPolicyReport(report: PolicyReport, colors: Colors): string {
  const lines: string[] = [];
  for (const [kind, label] of Object.entries(changeKinds) as [ChangeKind, string][]) {
    if (report.counts[kind] === 0) continue;
    lines.push(colors[changeColors[kind]](`${label}: ${report.counts[kind]}`));
    for (const group of report.groups.filter((one) => one.kind === kind)) lines.push(...groupLines(group, colors));
  }
  for (const [route, count] of Object.entries(report.skipped)) {
    lines.push(`skipped ${count} exchanges of route ${printableLine(route)}, which the configuration does not have`);
  }
  const total = `${report.exchanges} exchanges: ${report.same} unchanged`;
  return `${[...lines, total].join("\n")}\n`;
}

function groupLines(
  { method, target, rule, detail, count, principals, examples }: ChangeGroup,
  colors: Colors,
): readonly string[] {
  const what = printableLine(target === undefined ? method : `${method} ${target}`);
  const by = rule === undefined ? "" : ` by rule ${printableLine(rule)}`;
  const who = principals.map(printableLine).join(", ");
  return [
    `  ${String(count).padStart(6)} × ${what}${by} ${colors.dim(`(${who}; ${examples.map(printableLine).join(", ")})`)}`,
    ...detail.slice(0, 10).map((line) => `           ${printableLine(line)}`),
  ];
}
