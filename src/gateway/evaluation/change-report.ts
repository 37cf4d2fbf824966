import type { ExchangeRecord } from "../../recorder/contract.ts";

/** Kinds of changes, and their labels. */
export const changeKinds = {
  "newly-denied": "newly denied",
  "newly-allowed": "newly allowed",
  "list-hidden": "list entries hidden",
  "list-shown": "list entries shown",
  "arguments-changed": "arguments changed",
  "answer-changed": "answers changed",
  undecidable: "undecidable",
} as const;

export type ChangeKind = keyof typeof changeKinds;

/** One change that a policy would make. */
export interface PolicyChange {
  readonly kind: ChangeKind;
  /** The deciding rule; undefined if none decides. */
  readonly rule: string | undefined;
  /** Names, differences, or missing values. */
  readonly detail: readonly string[];
}

/** The same change of several exchanges. */
export interface ChangeGroup extends PolicyChange {
  readonly method: string;
  readonly target: string | undefined;
  readonly count: number;
  readonly principals: readonly string[];
  /** IDs of some of the exchanges, for `headgate traffic show`. */
  readonly examples: readonly string[];
}

/** What a policy would change in recorded traffic. */
export interface PolicyReport {
  readonly exchanges: number;
  /** Exchanges that would not change. */
  readonly same: number;
  readonly counts: Readonly<Record<ChangeKind, number>>;
  readonly groups: readonly ChangeGroup[];
  /** Exchanges of recorded routes that the configuration does not have, by route. */
  readonly skipped: Readonly<Record<string, number>>;
}

const maxExamples = 3;
const maxGroups = 1000;

interface GroupBuilder {
  readonly group: Omit<ChangeGroup, "count" | "principals" | "examples">;
  readonly principals: Set<string>;
  readonly examples: string[];
  count: number;
}

/** Collects changes and groups equal ones. */
export function createChangeReport() {
  const groups = new Map<string, GroupBuilder>();
  const counts: Record<ChangeKind, number> = {
    "newly-denied": 0,
    "newly-allowed": 0,
    "list-hidden": 0,
    "list-shown": 0,
    "arguments-changed": 0,
    "answer-changed": 0,
    undecidable: 0,
  };
  const skipped: Record<string, number> = {};
  const changed = { last: "", exchanges: 0 };
  let exchanges = 0;

  return {
    get exchanges() {
      return exchanges;
    },
    count: () => {
      exchanges++;
    },
    skip: (route: string) => {
      skipped[route] = (skipped[route] ?? 0) + 1;
    },
    add: (change: PolicyChange, { capture, id, method, target, principal }: ExchangeRecord) => {
      counts[change.kind]++;
      const exchange = `${capture} ${id}`;
      if (changed.last !== exchange) changed.exchanges++;
      changed.last = exchange;
      const key = JSON.stringify([change.kind, method, target, change.rule, change.detail]);
      let own = groups.get(key);
      if (own === undefined) {
        if (groups.size >= maxGroups) return;
        own = { group: { ...change, method, target }, principals: new Set(), examples: [], count: 0 };
        groups.set(key, own);
      }
      own.count++;
      if (own.principals.size < maxExamples) own.principals.add(principal);
      if (own.examples.length < maxExamples) own.examples.push(id);
    },
    finish: (): PolicyReport => ({
      exchanges,
      same: exchanges - changed.exchanges - Object.values(skipped).reduce((sum, count) => sum + count, 0),
      counts,
      groups: [...groups.values()]
        .toSorted((a, b) => b.count - a.count)
        .map(({ group, principals, examples, count }) => ({
          ...group,
          count,
          principals: [...principals],
          examples,
        })),
      skipped,
    }),
  };
}
