import { methodFacts, methodNames } from "../../protocol/methods.ts";
import { mayNameHidden } from "./hidden-names.ts";
import { isListMethod } from "./lists.ts";
import { mayHoldTaskResult } from "./task-results.ts";

/** What enforcement has to look out for in messages of a method and in their answers. */
export interface MethodTraits {
  /** Requests name a resource by its URI. */
  readonly hasUri: boolean;
  /** The message may be about something hidden. */
  readonly mayNameHidden: boolean;
  /** Answers hold lists, completed names or the results of tasks. */
  readonly hasNestedContent: boolean;
}

const plain: MethodTraits = { hasUri: false, mayNameHidden: false, hasNestedContent: false };

const traits: ReadonlyMap<string, MethodTraits> = new Map(
  methodNames.map((method) => {
    const isAboutHidden = mayNameHidden(method);
    const hasNestedContent = isAboutHidden || isListMethod(method) || mayHoldTaskResult(method);
    const hasUri = methodFacts(method)?.target === "resource";
    return [method, { hasUri, mayNameHidden: isAboutHidden, hasNestedContent }];
  }),
);

/** The traits of a method, in one look; those of methods that nobody knows are the plainest. */
export function methodTraits(method: string | undefined): MethodTraits {
  return (method === undefined ? undefined : traits.get(method)) ?? plain;
}
