import type { Subject } from "../../intercept/subject.ts";
import { methodFacts } from "../../protocol/methods.ts";
import type { RulesConfig } from "../config.ts";
import { createNameTest } from "../globs.ts";
import type { ListKind, ListQuestion } from "../provider.ts";
import { isKnownByCall, targetName } from "./facts.ts";
import { judgeList, type ListRuling } from "./lists.ts";
import type { ReadPath } from "./paths.ts";
import { isSteady } from "./remainder.ts";
import type { RuleSet } from "./rules.ts";

/** Which names callers may know of: in lists, and where they are called by. */
export interface VisibleNames {
  /** Whether there is anything that could hide a name. */
  readonly canHide: boolean;
  /** Whether caller, method and name suffice to know that what a request is about is hidden. */
  readonly isSteady: boolean;
  /** Whether the name that a request is about is hidden from the caller. */
  isHidden(subject: Subject): boolean;
  judge(question: ListQuestion): ListRuling;
}

/** Makes the test of names from patterns of the configuration, and from rules for lists if there are any. */
export function createVisibleNames(settings: RulesConfig, lists: RuleSet | undefined): VisibleNames {
  const names = namesOf(settings);
  const canHide = lists !== undefined || Object.values(names).some((test) => test !== undefined);
  return {
    canHide,
    isSteady: lists?.steps.every(({ rule }) => rule.condition.reads.every(isSteadyInLists)) ?? true,
    isHidden: (subject) => {
      const { message } = subject;
      const kind = canHide ? methodFacts(message.method ?? "")?.target : undefined;
      const target = kind === undefined ? undefined : targetName(message, kind);
      if (kind === undefined || kind === "task" || target === undefined) return false;
      if (names[kind]?.(target) === false) return true;
      if (lists === undefined || !isKnownByCall(kind, lists.needs.entry)) return false;
      const key = kind === "resource" ? "uri" : "name";
      const question = { subject, kind, entries: [{ name: target, value: { [key]: target } }] };
      return !(judgeList(lists, undefined, question).visible[0] ?? false);
    },
    judge: (question) => judgeList(lists, names[question.kind], question),
  };
}

/** A call says all that is looked at of an entry, or its entry is not asked about. */
function isSteadyInLists(path: ReadPath): boolean {
  return path[0] === "entry" || isSteady(path);
}

type NameTests = Readonly<Record<ListKind, ((name: string) => boolean) | undefined>>;

function namesOf({ tools, prompts, resources }: RulesConfig): NameTests {
  const resource = createNameTest(resources);
  return {
    tool: createNameTest(tools),
    prompt: createNameTest(prompts),
    resource,
    "resource-template": resource,
  };
}
