import type { InspectedMessage } from "../../intercept/subject.ts";
import { methodFacts } from "../../protocol/methods.ts";
import type { RulesConfig } from "../config.ts";
import { createNameMatcher } from "../globs.ts";
import type { ListKind, ListPage } from "../provider.ts";
import { isKnownByCall, requestTargetName } from "./facts.ts";
import { filterEntries, type ListFilterResult } from "./lists.ts";
import type { ReadPath } from "./paths.ts";
import { isStaticPath } from "./remainder.ts";
import type { RuleSet } from "./rules.ts";

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
