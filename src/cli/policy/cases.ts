import { dirname, extname, resolve } from "node:path";
import { isDeepStrictEqual } from "node:util";

import * as z from "zod";

import type { RouteConfig } from "../../config/config.ts";
import { loadConfig } from "../../config/load.ts";
import { formatPath, formatProblem, type Problem } from "../../config/problem.ts";
import { reasonOf } from "../../config/substitute.ts";
import { anonymous } from "../../core/exchange.ts";
import { applyChange } from "../../core/interceptors/change.ts";
import { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import type { Decision, ListEntry, ListKind, PolicyProvider } from "../../policy/provider/provider.ts";
import { memberValue } from "../../protocol/json/read.ts";
import type { Message } from "../../protocol/message.ts";
import { exitCodes } from "../commands.ts";
import type { CliIo } from "../io.ts";
import {
  chooseRoute,
  createRouteProvider,
  offlineCall,
  principalInput,
  requestInput,
  toMessage,
  toPrincipal,
  toSampleExchange,
} from "./sample-exchange.ts";
import { describeIssue, locateIssues, toFindings } from "../../config/issues.ts";
import type { SourcePosition } from "../../config/source.ts";

/** `headgate policy test FILE`: asks the policy of a configuration about cases, and says which came out as expected. */
export async function policyTest(file: string, io: CliIo): Promise<number> {
  let text: string;
  try {
    text = await io.readFile(file);
  } catch (error) {
    io.err(`${file} cannot be read: ${reasonOf(error)}\n`);
    return exitCodes.config.code;
  }
  const parsed = await parseCases(text, extname(file).toLowerCase() === ".json" ? "json" : "yaml");
  if (!parsed.ok) {
    for (const problem of parsed.problems) io.err(`${formatProblem(problem, file)}\n`);
    return exitCodes.config.code;
  }
  const { file: cases } = parsed;
  const configFile = resolve(dirname(file), cases.config);
  const loaded = await loadConfig({ file: configFile, env: io.env, readFile: io.readFile });
  if (!loaded.ok) {
    for (const problem of loaded.problems) io.err(`${formatProblem(problem, cases.config)}\n`);
    return exitCodes.config.code;
  }
  const chosen = chooseRoute(loaded.config, cases.route);
  const rules = chosen.ok ? createRouteProvider(chosen.route) : chosen;
  if (!chosen.ok || !rules.ok) {
    io.err(`${file}: ${rules.ok ? "" : rules.problem}\n`);
    return exitCodes.config.code;
  }
  return runCases(cases, chosen.route, file, io);
}

function runCases(file: CaseFile, route: RouteConfig, name: string, io: CliIo): number {
  let failed = 0;
  for (const [index, one] of file.cases.entries()) {
    const mismatches = mismatchesOf(one, file, route);
    if (mismatches.length === 0) {
      io.out(`ok    ${one.name}\n`);
      continue;
    }
    failed++;
    const place = [name, file.places[index]?.line, file.places[index]?.column].filter((part) => part !== undefined);
    io.out(`FAIL  ${one.name}  (${place.join(":")})\n${mismatches.map((line) => `      ${line}\n`).join("")}`);
  }
  io.out(`${file.cases.length - failed} passed, ${failed} failed\n`);
  return failed === 0 ? exitCodes.ok.code : exitCodes.usage.code;
}

/** What came out, in the terms of an expectation. */
interface CaseOutcome {
  readonly decisions: readonly string[];
  readonly rule: string | undefined;
  readonly code: string | undefined;
  readonly params?: unknown;
  readonly result?: unknown;
  readonly visible?: readonly string[] | undefined;
  readonly why: string;
}

function mismatchesOf(one: PolicyCase, file: CaseFile, route: RouteConfig): readonly string[] {
  // Each case has the policy for itself, so that none depends on what others have used up.
  const rules = createRouteProvider(route);
  if (!rules.ok) return [rules.problem];
  const outcome = evaluateCase(one, file, route, rules.provider);
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
  file: CaseFile,
  route: RouteConfig,
  provider: PolicyProvider,
): CaseOutcome | string {
  const asked = toMessage({ ...one.message, ...(one.notification ? {} : { id: 1 }) });
  if (!asked.ok) return `the message is none: ${asked.problem}`;
  const given = typeof one.principal === "string" ? file.principals[one.principal] : one.principal;
  const principal = given === undefined ? anonymous : toPrincipal(given);
  const exchange = toSampleExchange(asked.message, { route: route.name, principal, request: one.request });
  if (one.entries !== undefined) return evaluateListCase(one, InspectedMessage.of(exchange), provider);
  let subject = InspectedMessage.of(exchange);
  if (one.answer !== undefined) {
    const answer = toMessage({ id: 1, ...one.answer });
    if (!answer.ok || asked.message.kind !== "request")
      return `the answer is none: ${answer.ok ? "nothing was asked" : answer.problem}`;
    subject = InspectedMessage.answering(exchange, asked.message, answer.message);
  }
  let verdict: Decision | undefined;
  for (let time = 0; time < one.times; time++) {
    const said =
      one.answer === undefined
        ? provider.evaluateRequest(subject, offlineCall)
        : provider.evaluateResponse(subject, offlineCall);
    if (said instanceof Promise) return "the policy did not decide at once";
    verdict = said;
  }
  return verdict === undefined ? "nothing was asked" : toCaseOutcome(subject, verdict);
}

function toCaseOutcome(subject: InspectedMessage, verdict: Decision): CaseOutcome | string {
  const { rule, notes = [] } = verdict.explanation;
  const by = rule === undefined ? ", by no rule" : `, by rule ${rule}`;
  const why = `${by}${notes.length === 0 ? "" : ` (${notes.join("; ")})`}`;
  if (verdict.effect === "deny") {
    const { kind, code } = verdict.refusal;
    return { decisions: ["deny", kind], rule, code, why: `${why}: ${code}` };
  }
  const { message, exchange } = subject;
  const changed = verdict.change && applyChange(message, verdict.change, { revision: exchange.revision });
  if (changed?.ok === false) return `the change cannot be made: ${changed.problem}`;
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

const listKinds: Readonly<Record<string, readonly [ListKind, string]>> = {
  "tools/list": ["tool", "name"],
  "prompts/list": ["prompt", "name"],
  "resources/list": ["resource", "uri"],
  "resources/templates/list": ["resource-template", "uriTemplate"],
};

function evaluateListCase(
  { message, entries = [] }: PolicyCase,
  subject: InspectedMessage,
  provider: PolicyProvider,
): CaseOutcome | string {
  const known = listKinds[message.method];
  if (known === undefined) return `\`entries\` go with ${Object.keys(listKinds).join(", ")}`;
  const [kind, key] = known;
  const list: ListEntry[] = entries.map((value) => ({ name: String(value[key]), value }));
  const verdict = provider.filterList?.({ subject, kind, entries: list }, offlineCall);
  if (verdict instanceof Promise) return "the policy did not decide at once";
  const visible = list.filter((_, index) => verdict?.visible[index] ?? true).map(({ name }) => name);
  return { decisions: ["allow"], rule: undefined, code: undefined, visible, why: "" };
}

const effects = ["allow", "change", "deny", "forbidden", "hidden", "scope", "rate", "unavailable", "invalid"] as const;

const expectation = z.strictObject({
  decision: z.enum(effects).optional(),
  rule: z.string().optional(),
  code: z.string().optional(),
  params: z.record(z.string(), z.unknown()).optional(),
  result: z.record(z.string(), z.unknown()).optional(),
  visible: z.array(z.string()).optional(),
});

const policyCase = z
  .strictObject({
    name: z.string().min(1),
    principal: z.union([z.string(), principalInput]).optional(),
    request: requestInput.prefault({}),
    message: z.strictObject({
      method: z.string().min(1),
      params: z.record(z.string(), z.unknown()).optional(),
    }),
    notification: z.boolean().default(false),
    answer: z.record(z.string(), z.unknown()).optional(),
    entries: z.array(z.record(z.string(), z.unknown())).optional(),
    times: z.int().min(1).max(10_000).default(1),
    expect: z.union([z.enum(effects), expectation], { error: "expected a decision, or an object" }),
  })
  .refine(({ answer, entries }) => answer === undefined || entries === undefined, {
    error: "has either an `answer` or `entries`",
  });

const caseFile = z.strictObject({
  config: z.string().min(1),
  route: z.string().optional(),
  principals: z.record(z.string(), principalInput).default({}),
  cases: z.array(policyCase).min(1),
});

/** One case: what comes, and what should become of it. */
export type PolicyCase = z.output<typeof policyCase>;

/** A file of cases for the policy of one route. */
export interface CaseFile extends z.output<typeof caseFile> {
  /** Where each case stands in the file. */
  readonly places: readonly (SourcePosition | undefined)[];
}

export type CaseFileResult =
  | { readonly ok: true; readonly file: CaseFile }
  | { readonly ok: false; readonly problems: readonly Problem[] };

/** Reads a file of cases and says everything that is wrong with it. */
async function parseCases(text: string, format: "yaml" | "json"): Promise<CaseFileResult> {
  const { readSource } = await import("../../config/source.ts");
  const source = readSource(text, format);
  if (!source.ok) return { ok: false, problems: source.faults.map((fault) => ({ path: "", ...fault })) };
  const { success, data, error } = caseFile.safeParse(source.tree ?? {}, {
    error: describeIssue,
    reportInput: true,
  });
  if (!success) {
    const findings = toFindings(locateIssues(error.issues), source.tree);
    const problems = findings.map((finding): Problem => ({
      path: formatPath(finding.path),
      message: finding.message,
      ...source.placeOf(finding),
    }));
    return { ok: false, problems: problems.toSorted((one, other) => (one.line ?? 0) - (other.line ?? 0)) };
  }
  const unknown = data.cases.flatMap(({ principal }, index): Problem[] => {
    if (typeof principal !== "string" || Object.hasOwn(data.principals, principal)) return [];
    const path = ["cases", index, "principal"];
    const message = `there is no principal \`${principal}\` in \`principals\``;
    return [{ path: formatPath(path), message, ...source.placeOf({ path }) }];
  });
  if (unknown.length > 0) return { ok: false, problems: unknown };
  const places = data.cases.map((_, index) => source.placeOf({ path: ["cases", index] }));
  return { ok: true, file: { ...data, places } };
}
