import { dirname, extname, isAbsolute, join } from "node:path";
import { isDeepStrictEqual } from "node:util";

import * as z from "zod";

import type { Config, RouteConfig } from "../../config/config.ts";
import {
  type ConfigFinding,
  describeIssue,
  formatPath,
  formatProblem,
  locateIssues,
  type LocatedIssue,
  type Path,
  type Problem,
  toFindings,
} from "../../config/issues.ts";
import type { SourcePosition } from "../../config/source.ts";
import { reasonOf } from "../../config/substitute.ts";
import { anonymous, type Principal } from "../../core/exchange.ts";
import { applyChange, InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import {
  chooseRoute,
  createRouteProvider,
  decideAtOnce,
  offlineCall,
  principalInput,
  requestInput,
  type SamplePrincipal,
  toMessage,
  toSampleExchange,
  toSamplePrincipal,
} from "../../gateway/evaluation/sample-exchange.ts";
import { closestName } from "../../lib/closest-name.ts";
import { isPromise } from "../../lib/is-promise.ts";
import type { Decision, ListEntry, PolicyProvider } from "../../policy/provider/provider.ts";
import { memberValue } from "../../protocol/json/read.ts";
import { listMethods, listShapeOf } from "../../protocol/lists.ts";
import type { Message } from "../../protocol/message.ts";
import { exitCodes } from "../commands.ts";
import { InputFileError, loadConfigFile } from "../define-command.ts";
import type { CliIo } from "../io.ts";

/** `headgate policy test FILE`: runs the cases of a file against the policy of a configuration. */
export async function policyTest(file: string, io: CliIo): Promise<number> {
  const cases = await readCases(file, io);
  const configFile = isAbsolute(cases.config) ? cases.config : join(dirname(file), cases.config);
  const config = await loadConfigFile(configFile, io, (warning) => {
    io.err(`${warning} (warning)\n`);
  });
  return runCases(cases, { config, route: chooseRoute(config, cases.route) }, file, io);
}

/** The policy under test. */
interface TestedRoute {
  readonly config: Config;
  readonly route: RouteConfig;
}

function runCases(file: CaseFile, tested: TestedRoute, name: string, io: CliIo): number {
  let failed = 0;
  for (const [index, one] of file.cases.entries()) {
    const { principal, warning } = callerOf(one, file, tested);
    const mismatches = mismatchesOf(one, principal, tested.route);
    if (warning !== undefined)
      io.err(`${name}:${placeOf(file, index)} cases[${index}].principal: ${warning} (warning)\n`);
    if (mismatches.length === 0) {
      io.out(`ok    ${one.name}\n`);
      continue;
    }
    failed++;
    io.out(
      `FAIL  ${one.name}  (${name}:${placeOf(file, index)})\n${mismatches.map((line) => `      ${line}\n`).join("")}`,
    );
  }
  io.out(`${file.cases.length - failed} passed, ${failed} failed\n`);
  return failed === 0 ? exitCodes.ok.code : exitCodes.failed.code;
}

function placeOf({ places }: CaseFile, index: number): string {
  const { line = 1, column = 1 } = places[index] ?? {};
  return `${line}:${column}`;
}

function callerOf(
  { principal }: PolicyCase,
  { principals }: CaseFile,
  { config, route }: TestedRoute,
): SamplePrincipal {
  const given = typeof principal === "string" ? principals[principal] : principal;
  return given === undefined ? { principal: anonymous, warning: undefined } : toSamplePrincipal(given, route, config);
}

/** The outcome of a case, in the terms of an expectation. */
interface CaseOutcome {
  readonly decisions: readonly string[];
  readonly rule: string | undefined;
  readonly code: string | undefined;
  readonly params?: unknown;
  readonly result?: unknown;
  readonly visible?: readonly string[] | undefined;
  readonly why: string;
}

function mismatchesOf(one: PolicyCase, principal: Principal, route: RouteConfig): readonly string[] {
  // Each case has its own provider, so that none uses up the rate limit of another.
  const outcome = evaluateCase(one, principal, route, createRouteProvider(route));
  if (typeof outcome === "string") return [outcome];
  const { decision, ...rest } = typeof one.expect === "string" ? { decision: one.expect } : one.expect;
  const lines: string[] = [];
  if (decision !== undefined && !outcome.decisions.includes(decision)) {
    lines.push(`expected ${decision}, got ${outcome.decisions.join(" ")}${outcome.why}`);
  }
  for (const [key, expected] of Object.entries(rest)) {
    const got = outcome[key as keyof typeof rest];
    if (expected !== undefined && !isDeepStrictEqual(got, expected)) {
      lines.push(`expected ${key} ${JSON.stringify(expected)}, got ${JSON.stringify(got) ?? "none"}${outcome.why}`);
    }
  }
  return lines;
}

function evaluateCase(
  one: PolicyCase,
  principal: Principal,
  route: RouteConfig,
  provider: PolicyProvider,
): CaseOutcome | string {
  const request = toMessage({ ...one.message, ...(one.notification ? {} : { id: 1 }) });
  if (!request.ok) return `invalid message: ${request.problem}`;
  const exchange = toSampleExchange(request.message, { route: route.name, principal, request: one.request });
  let inspected = InspectedMessage.of(exchange);
  if (one.entries !== undefined) return evaluateListCase(one, inspected, provider);
  if (one.answer !== undefined) {
    const answer = toMessage({ id: 1, ...one.answer });
    if (!answer.ok) return `invalid answer: ${answer.problem}`;
    if (request.message.kind !== "request") return "invalid answer: the message is a notification";
    inspected = InspectedMessage.answering(exchange, request.message, answer.message);
  }
  let decision = decideAtOnce(provider, inspected);
  for (let time = 1; time < one.times; time++) decision = decideAtOnce(provider, inspected);
  return toCaseOutcome(inspected, decision);
}

function toCaseOutcome(inspected: InspectedMessage, decision: Decision): CaseOutcome | string {
  const { rule, notes = [] } = decision.explanation;
  const by = rule === undefined ? ", by no rule" : `, by rule ${rule}`;
  const why = `${by}${notes.length === 0 ? "" : ` (${notes.join("; ")})`}`;
  if (decision.effect === "deny") {
    const { kind, code } = decision.refusal;
    return { decisions: ["deny", kind], rule, code, why: `${why}: ${code}` };
  }
  const { message, exchange } = inspected;
  const changed = decision.change && applyChange(message, decision.change, { revision: exchange.revision });
  if (changed?.ok === false) return `the change cannot be applied: ${changed.problem}`;
  const after: Message = changed?.message ?? message;
  return {
    decisions: changed === undefined ? ["allow"] : ["allow", "change"],
    rule,
    code: undefined,
    params: memberValue(after, "params"),
    result: memberValue(after, "result"),
    why,
  };
}

function evaluateListCase(
  { message, entries = [] }: PolicyCase,
  inspected: InspectedMessage,
  provider: PolicyProvider,
): CaseOutcome | string {
  const facts = listShapeOf(message.method);
  if (facts === undefined) return `\`entries\` can only be used with ${listMethods.join(", ")}`;
  const { kind, key } = facts;
  const list: ListEntry[] = entries.map((value) => ({ name: String(value[key]), value }));
  const decision = provider.filterList?.({ subject: inspected, kind, entries: list }, offlineCall);
  if (isPromise(decision)) return "the policy did not decide synchronously";
  const visible = list.filter((_, index) => decision?.visible[index] ?? true).map(({ name }) => name);
  return { decisions: ["allow"], rule: undefined, code: undefined, visible, why: "" };
}

const effects = ["allow", "change", "deny", "forbidden", "hidden", "scope", "rate", "unavailable", "invalid"] as const;

const expectError = `expected ${effects.map((effect) => `\`${effect}\``).join(", ")}, or an object`;

const expectation = z.strictObject({
  decision: z.enum(effects).optional(),
  rule: z.string().optional(),
  code: z.string().optional(),
  params: z.record(z.string(), z.unknown()).optional(),
  result: z.record(z.string(), z.unknown()).optional(),
  visible: z.array(z.string()).optional(),
});

const messageInput = z.strictObject({
  method: z.string().min(1),
  params: z.record(z.string(), z.unknown()).optional(),
});

const policyCase = z
  .strictObject({
    name: z.string().min(1),
    principal: z.union([z.string(), principalInput]).optional(),
    request: requestInput.prefault({}),
    message: messageInput,
    notification: z.boolean().default(false),
    answer: z.record(z.string(), z.unknown()).optional(),
    entries: z.array(z.record(z.string(), z.unknown())).optional(),
    times: z.int().min(1).max(10_000).default(1),
    expect: z.union([z.enum(effects), expectation], { error: expectError }),
  })
  .refine(({ answer, entries }) => answer === undefined || entries === undefined, {
    error: "cannot have both `answer` and `entries`",
  });

const caseFile = z.strictObject({
  config: z.string().min(1),
  route: z.string().optional(),
  principals: z.record(z.string(), principalInput).default({}),
  cases: z.array(policyCase).min(1),
});

/** One case: a message and the expected decision. */
export type PolicyCase = z.output<typeof policyCase>;

/** A file of cases for the policy of one route. */
export interface CaseFile extends z.output<typeof caseFile> {
  /** The position of each case in the file. */
  readonly places: readonly (SourcePosition | undefined)[];
}

/** The keys at a path of a file of cases. */
function keysAt([first, second, third]: Path): readonly string[] {
  if (first === undefined) return Object.keys(caseFile.shape);
  if (first === "principals" || third === "principal") return Object.keys(principalInput.shape);
  if (second === undefined || third === undefined) return Object.keys(policyCase.shape);
  const parts = { expect: expectation, message: messageInput, request: requestInput };
  return Object.hasOwn(parts, third) ? Object.keys(parts[third as keyof typeof parts].shape) : [];
}

/** What is wrong with a file of cases; a key that is misspelt is not also missing. */
function caseFindings(issues: readonly LocatedIssue[], tree: unknown): readonly ConfigFinding[] {
  const meant = new Set<string>();
  const unknown = issues.flatMap(({ issue, path }) =>
    issue.code === "unrecognized_keys"
      ? issue.keys.map((key): ConfigFinding => {
          const known = keysAt(path);
          const closest = closestName(key, known);
          if (closest !== undefined) meant.add(formatPath([...path, closest]));
          const named = known.map((name) => `\`${name}\``).join(", ");
          const hint = closest === undefined ? `expected ${named}` : `did you mean \`${closest}\`?`;
          return { path, key, message: `unknown key \`${key}\`; ${hint}` };
        })
      : [],
  );
  const others = issues.filter(({ issue, path }) => issue.code !== "unrecognized_keys" && !meant.has(formatPath(path)));
  return [...unknown, ...toFindings(others, tree)];
}

/** Reads and checks a file of cases; throws with everything that is wrong with it. */
async function readCases(file: string, io: CliIo): Promise<CaseFile> {
  const fail = (problems: readonly Problem[]): never => {
    throw new InputFileError(problems.map((problem) => formatProblem(problem, file)).join("\n"));
  };
  let text = "";
  try {
    text = await io.readFile(file);
  } catch (error) {
    throw new InputFileError(`${file} cannot be read: ${reasonOf(error)}`);
  }
  const { readSource } = await import("../../config/source.ts");
  const source = readSource(text, extname(file).toLowerCase() === ".json" ? "json" : "yaml");
  if (!source.ok) return fail(source.faults.map((fault) => ({ path: "", ...fault })));
  const toProblem = (finding: ConfigFinding): Problem => ({
    path: formatPath(finding.path),
    message: finding.message,
    ...source.placeOf(finding),
  });
  const { success, data, error } = caseFile.safeParse(source.tree ?? {}, { error: describeIssue, reportInput: true });
  if (!success) {
    const problems = caseFindings(locateIssues(error.issues), source.tree).map(toProblem);
    return fail(problems.toSorted((one, other) => (one.line ?? 0) - (other.line ?? 0)));
  }
  const unknown = data.cases.flatMap(({ principal }, index): Problem[] =>
    typeof principal !== "string" || Object.hasOwn(data.principals, principal)
      ? []
      : [toProblem({ path: ["cases", index, "principal"], message: `\`principals\` has no \`${principal}\`` })],
  );
  if (unknown.length > 0) return fail(unknown);
  const places = data.cases.map((_, index) => source.placeOf({ path: ["cases", index] }));
  return { ...data, places };
}
