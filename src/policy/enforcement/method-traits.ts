import { methodFacts, methodNames } from "../../protocol/methods.ts";
import { mayBeAboutNames } from "./hidden-names.ts";
import { isListMethod } from "./lists.ts";
import { holdsTask } from "./task-results.ts";

/** What enforcement has to look out for in messages of a method and in their answers. */
export interface MethodTraits {
  /** Requests name a resource by its URI. */
  readonly hasUri: boolean;
  /** The message may be about something hidden. */
  readonly isAboutNames: boolean;
  /** Answers hold lists, completed names or the results of tasks. */
  readonly hasRichAnswer: boolean;
}

const plain: MethodTraits = { hasUri: false, isAboutNames: false, hasRichAnswer: false };

const traits: ReadonlyMap<string, MethodTraits> = new Map(
  methodNames.map((method) => {
    const isAboutNames = mayBeAboutNames(method);
    const hasRichAnswer = isAboutNames || isListMethod(method) || holdsTask(method);
    return [method, { hasUri: methodFacts(method)?.target === "resource", isAboutNames, hasRichAnswer }];
  }),
);

/** The traits of a method, in one look; those of methods that nobody knows are the plainest. */
export function traitsOf(method: string | undefined): MethodTraits {
  return (method === undefined ? undefined : traits.get(method)) ?? plain;
}
