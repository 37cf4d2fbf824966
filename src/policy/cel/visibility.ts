import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { createGlobTest } from "../../lib/glob.ts";
import { methodFacts } from "../../protocol/methods.ts";
import { type ListKind, type ListPage, type ShadowDecision, targetName } from "../provider/provider.ts";
import type { RulesConfig } from "./config.ts";
import { decide } from "./decide.ts";
import { Bindings, isKnownFromCall } from "./facts.ts";
import { isStaticPath } from "./plan-cache.ts";
import { createReachability } from "./reachability.ts";
import type { ReadPath } from "./read-paths.ts";
import type { RuleSet } from "./rules.ts";

/** Which names callers can see, in lists and when they use a name. */
export interface NameVisibility {
  /** Whether the configuration can leave any entry out of a list. */
  readonly canFilter: boolean;
  /** Whether the configuration can hide any name, as if it did not exist. */
  readonly canHide: boolean;
  /** Whether `isHidden` depends on caller, method and target name only. */
  readonly isStatic: boolean;
  /** Whether the target of a request is hidden from the caller. */
  isHidden(subject: InspectedMessage): boolean;
  filter(page: ListPage): ListFilterResult;
}

/** Which entries of a page are visible, with what is reported about it. */
export interface ListFilterResult {
  readonly visible: readonly boolean[];
  /** What rules in shadow mode would have hidden. */
  readonly shadow?: readonly ShadowDecision[] | undefined;
  /** Rules that failed. */
  readonly notes?: readonly string[] | undefined;
}

/** Most entries named in a report. */
const maxReported = 5;

/** Creates the test of names from the configured patterns, the list rules, and the rules for requests. */
export function createNameVisibility(
  config: RulesConfig,
  lists: RuleSet | undefined,
  calls: RuleSet | undefined,
): NameVisibility {
  const { tools, prompts, resources } = config;
  const matchers: Readonly<Record<ListKind, NameMatcher | undefined>> = {
    tool: createNameMatcher(tools),
    prompt: createNameMatcher(prompts),
    resource: createNameMatcher(resources),
    "resource-template": createNameMatcher(resources),
  };
  const hasNameRules = lists !== undefined || Object.values(matchers).some((matcher) => matcher !== undefined);
  const reachability = calls && createReachability(calls);
  const conditions = lists?.rules.map(({ rule }) => rule.condition) ?? [];
  return {
    canFilter: hasNameRules || calls !== undefined,
    canHide: hasNameRules || calls?.rules.some(({ rule }) => rule.refusal.kind === "hidden" && !rule.isShadow) === true,
    // A request is only tested against list rules that read nothing of an entry but its name.
    isStatic: conditions.every(({ reads }) => reads.every((path) => isOwnOfEntry(path) || isStaticPath(path))),
    isHidden: (subject) => {
      const { message } = subject;
      const kind = hasNameRules ? methodFacts(message.method ?? "")?.target : undefined;
      const name = kind === undefined ? undefined : targetName(message, kind);
      if (kind === undefined || kind === "task" || name === undefined) return false;
      if (matchers[kind]?.(name) === false) return true;
      if (lists === undefined || !isKnownFromCall(kind, lists.needs.entry)) return false;
      const value = { [kind === "resource" ? "uri" : "name"]: name };
      return filterByRules(lists, undefined, { subject, kind, entries: [{ name, value }] }).visible[0] !== true;
    },
    filter: (page) => {
      const { kind, entries, subject } = page;
      const isAllowed = matchers[kind];
      const filtered: ListFilterResult =
        lists === undefined
          ? { visible: entries.map(({ name }) => isAllowed?.(name) ?? true) }
          : filterByRules(lists, isAllowed, page);
      if (reachability === undefined) return filtered;
      // Outside lists, as in a link, a name that cannot be used is no secret unless a rule hides it.
      const isList = listMethods.has(subject.method ?? "");
      const visible = filtered.visible.map((isVisible, index) => {
        const entry = entries[index];
        if (!isVisible || entry === undefined) return false;
        const reached = reachability(subject.exchange, kind, entry.name);
        return isList ? reached === "possible" : reached !== "hidden";
      });
      return { ...filtered, visible };
    },
  };
}

/** Which server an entry stands for is not its own: it changes with a reload, and for a URI that is tried at each server. */
function isOwnOfEntry([variable, field]: ReadPath): boolean {
  return variable === "entry" && field !== "upstream" && field !== "original";
}

const listMethods: ReadonlySet<string> = new Set([
  "tools/list",
  "prompts/list",
  "resources/list",
  "resources/templates/list",
]);

type NameMatcher = (name: string) => boolean;

/** Names are compared case-sensitively; undefined if the patterns allow every name. */
function createNameMatcher(patterns: RulesConfig["tools"]): NameMatcher | undefined {
  if (patterns === undefined || (patterns.allow === undefined && patterns.deny.length === 0)) return undefined;
  const isAllowed = createGlobTest(patterns.allow);
  if (patterns.deny.length === 0) return isAllowed;
  const isDenied = createGlobTest(patterns.deny);
  return (name) => !isDenied(name) && isAllowed(name);
}

/** An entry whose rule fails is hidden. */
function filterByRules(
  { rules, needs, fallback }: RuleSet,
  isAllowed: NameMatcher | undefined,
  { subject, kind, entries }: ListPage,
): ListFilterResult {
  const bindings = new Bindings(subject, needs);
  const shadow: ShadowDecision[] = [];
  const notes: string[] = [];
  const visible = entries.map((entry) => {
    if (isAllowed?.(entry.name) === false) return false;
    bindings.setEntry(kind, entry);
    const result = decide(rules, rules.length, bindings, fallback);
    for (const decision of result.shadow ?? []) {
      if (decision.effect === "deny" && shadow.length < maxReported)
        shadow.push({ ...decision, reason: `would hide ${entry.name}` });
    }
    if (result.notes !== undefined && notes.length < maxReported)
      notes.push(`${entry.name}: ${result.rule?.id ?? ""} ${result.notes.join(", ")}`);
    return result.refusal === undefined;
  });
  return {
    visible,
    shadow: shadow.length === 0 ? undefined : shadow,
    notes: notes.length === 0 ? undefined : notes,
  };
}
