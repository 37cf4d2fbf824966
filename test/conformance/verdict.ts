import type { Check, Outcome, Status } from "./suite.ts";

/** A check that is not as it should be. */
export interface Finding {
  readonly scenario: string;
  readonly checkId: string;
  /** What is wrong, in one line. */
  readonly reason: string;
}

/** Entries `scenario` or `scenario:check-id`, each with the reason why it may fail. */
export type ExpectedFailures = ReadonlyMap<string, string>;

/** What remains when the expected failures are taken out of the findings. */
export interface Verdict {
  readonly expected: readonly Finding[];
  readonly unexpected: readonly Finding[];
  /** Entries that nothing fitted: they must go. */
  readonly stale: readonly string[];
}

/** Checks that failed or nearly so. */
export function failuresIn(outcome: Outcome): readonly Finding[] {
  return [...outcome].flatMap(([scenario, checks]) =>
    checks
      .filter(({ status }) => status === "FAILURE" || status === "WARNING")
      .map(({ id, name, status, errorMessage }) => ({
        scenario,
        checkId: id,
        reason: `${name} is ${status}${errorMessage === undefined ? "" : `: ${errorMessage}`}`,
      })),
  );
}

/** Checks that came out worse through the gateway than direct, or did not come at all. */
export function regressionsBetween(direct: Outcome, through: Outcome): readonly Finding[] {
  return [...direct].flatMap(([scenario, checks]) => {
    const others = groups(through.get(scenario) ?? []);
    return [...groups(checks)].flatMap(([key, group]) => {
      const reason = worseThan(group, others.get(key) ?? []);
      return reason === undefined ? [] : [{ scenario, checkId: group[0].id, reason: `${group[0].name} ${reason}` }];
    });
  });
}

/** Sorts findings into those that an entry allows and those that none does, and finds the entries without use. */
export function judge(findings: readonly Finding[], allowed: ExpectedFailures): Verdict {
  const used = new Set<string>();
  const isExpected = ({ scenario, checkId }: Finding): boolean => {
    const entry = [scenario, `${scenario}:${checkId}`].find((candidate) => allowed.has(candidate));
    if (entry !== undefined) used.add(entry);
    return entry !== undefined;
  };
  const expected = findings.filter(isExpected);
  return {
    expected,
    unexpected: findings.filter((finding) => !expected.includes(finding)),
    stale: [...allowed.keys()].filter((entry) => !used.has(entry)),
  };
}

type Group = readonly [Check, ...Check[]];

/** The checks that are one requirement, tried once or several times. What only informs is left out. */
function groups(checks: readonly Check[]): ReadonlyMap<string, Group> {
  const found = new Map<string, Group>();
  for (const check of checks) {
    if (check.status === "INFO") continue;
    const key = `${check.id} ${check.name}`;
    found.set(key, [...(found.get(key) ?? []), check] as [Check, ...Check[]]);
  }
  return found;
}

const ranks: Readonly<Record<Exclude<Status, "INFO">, number>> = {
  FAILURE: 0,
  WARNING: 1,
  SKIPPED: 2,
  SUCCESS: 3,
};

function worseThan(direct: Group, through: readonly Check[]): string | undefined {
  const [worst] = byRank(through);
  const [before] = byRank(direct);
  if (worst === undefined || through.length < direct.length) {
    return `came ${direct.length} times direct and ${through.length} times through the gateway`;
  }
  if (before === undefined || rankOf(worst) >= rankOf(before)) return undefined;
  const message = worst.errorMessage === undefined ? "" : `: ${worst.errorMessage}`;
  return `is ${before.status} direct and ${worst.status} through the gateway${message}`;
}

function byRank(checks: readonly Check[]): Check[] {
  return checks.toSorted((a, b) => rankOf(a) - rankOf(b));
}

function rankOf({ status }: Check): number {
  return status === "INFO" ? ranks.SUCCESS : ranks[status];
}
