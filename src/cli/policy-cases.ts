import * as z from "zod";

import { describeIssue, locateIssues, toFindings } from "../config/issues.ts";
import { formatPath, type Problem } from "../config/problem.ts";
import type { SourcePosition } from "../config/source.ts";
import { principalInput, requestInput } from "./policy-question.ts";

const effects = [
  "allow",
  "change",
  "deny",
  "forbidden",
  "hidden",
  "scope",
  "rate",
  "unavailable",
  "invalid",
] as const;

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
export async function parseCases(text: string, format: "yaml" | "json"): Promise<CaseFileResult> {
  const { readSource } = await import("../config/source.ts");
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
