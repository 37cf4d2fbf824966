import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import type { RulesConfig } from "./config.ts";
import type { ListKind, ListPage, ShadowDecision } from "../provider/provider.ts";
import { Bindings, isKnownByCall, requestTargetName } from "./facts.ts";
import type { ReadPath } from "./read-paths.ts";
import { isStaticPath } from "./partial-evaluation.ts";
import type { RuleSet } from "./rules.ts";
import { decide, type RuleSetResult } from "./decide.ts";
import { createGlobTest } from "../../lib/glob.ts";

/** Which names callers may know of: in lists, and where they are called by. */
export interface NameVisibility {
  /** Whether there is anything that could hide a name. */
  readonly canHide: boolean;
  /** Whether caller, method and name suffice to know that what a request is about is hidden. */
  readonly isStatic: boolean;
  /** Whether the name that a request is about is hidden from the caller. */
  isHidden(subject: InspectedMessage): boolean;
  filter(question: ListPage): ListFilterResult;
}

/** Makes the test of names from patterns of the configuration, and from rules for lists if there are any. */
export function createNameVisibility(settings: RulesConfig, lists: RuleSet | undefined): NameVisibility {
  const names = createNameMatchers(settings);
  const canHide = lists !== undefined || Object.values(names).some((test) => test !== undefined);
  return {
    canHide,
    isStatic: lists?.ordered.every(({ rule }) => rule.condition.reads.every(isStaticInLists)) ?? true,
    isHidden: (subject) => {
      const { message } = subject;
      const kind = canHide ? methodFacts(message.method ?? "")?.target : undefined;
      const target = kind === undefined ? undefined : requestTargetName(message, kind);
      if (kind === undefined || kind === "task" || target === undefined) return false;
      if (names[kind]?.(target) === false) return true;
      if (lists === undefined || !isKnownByCall(kind, lists.needs.entry)) return false;
      const key = kind === "resource" ? "uri" : "name";
      const question = { subject, kind, entries: [{ name: target, value: { [key]: target } }] };
      return !(filterEntries(lists, undefined, question).visible[0] ?? false);
    },
    filter: (question) => filterEntries(lists, names[question.kind], question),
  };
}

/** A call says all that is looked at of an entry, or its entry is not asked about. */
function isStaticInLists(path: ReadPath): boolean {
  return path[0] === "entry" || isStaticPath(path);
}

type NameTests = Readonly<Record<ListKind, ((name: string) => boolean) | undefined>>;

function createNameMatchers({ tools, prompts, resources }: RulesConfig): NameTests {
  const resource = createNameMatcher(resources);
  return {
    tool: createNameMatcher(tools),
    prompt: createNameMatcher(prompts),
    resource,
    "resource-template": resource,
  };
}

/** Which entries of a list may be seen, and what is to be told of how that came about. */
export interface ListFilterResult {
  readonly visible: readonly boolean[];
  /** The ruling on the list as a whole: no rule of its own, and what rules in shadow mode would have hidden. */
  readonly result: RuleSetResult | undefined;
}

/** Most entries that are named in notes; a list of thousands would make a log line of thousands. */
const mostNotes = 5;

/** Decides about the entries of a page. An entry about which a rule fails is hidden. */
function filterEntries(
  set: RuleSet | undefined,
  isNamed: ((name: string) => boolean) | undefined,
  { subject, kind, entries }: ListPage,
): ListFilterResult {
  if (set === undefined) {
    return { visible: entries.map((entry) => isNamed?.(entry.name) ?? true), result: undefined };
  }
  const bindings = new Bindings(subject, set.needs);
  const visible: boolean[] = [];
  let shadow: ShadowDecision[] | undefined;
  let notes: string[] | undefined;
  for (const entry of entries) {
    if (isNamed?.(entry.name) === false) {
      visible.push(false);
      continue;
    }
    bindings.setEntry(kind, entry);
    const ruling = decide(set.ordered, set.ordered.length, bindings, set.fallback);
    visible.push(ruling.refusal === undefined);
    for (const verdict of ruling.shadow ?? []) {
      if (verdict.effect === "deny" && (shadow?.length ?? 0) < mostNotes) {
        (shadow ??= []).push({ ...verdict, reason: `would hide ${entry.name}` });
      }
    }
    if (ruling.notes !== undefined && (notes?.length ?? 0) < mostNotes) {
      (notes ??= []).push(`${entry.name}: ${ruling.rule?.id ?? ""} ${ruling.notes.join(", ")}`);
    }
  }
  const whole = {
    refusal: undefined,
    rule: undefined,
    reached: set.ordered.length,
    effects: [],
    shadow,
    notes,
  };
  return { visible, result: whole };
}

/** Names that there are for clients, `*` standing for any text. */
export interface NamePatterns {
  /** The only names; all of them unless given. */
  readonly allow?: readonly string[] | undefined;
  /** Names that there are not, whatever `allow` says. */
  readonly deny: readonly string[];
}

/** Makes a test for names; undefined lists let every name pass. Names are compared as they are, letter by letter. */
function createNameMatcher(lists: NamePatterns | undefined): ((name: string) => boolean) | undefined {
  if (lists === undefined || (lists.allow === undefined && lists.deny.length === 0)) return undefined;
  const isAllowed = createGlobTest(lists.allow);
  if (lists.deny.length === 0) return isAllowed;
  const isDenied = createGlobTest(lists.deny);
  return (name) => !isDenied(name) && isAllowed(name);
}
