import type { ZodType } from "zod";

import { methodFacts } from "../methods.ts";
import { revisions } from "../revisions.ts";
import type { Revision } from "../revisions.ts";
import { createTaskResult, errorEntries, inputRequiredResult, resultEntries } from "./answers.ts";
import { notificationEntries, requestEntries } from "./asks.ts";
import { createFrames } from "./frames.ts";
import type { Entries } from "./frames.ts";

/** The validators of one revision. */
export interface MessageSchemas {
  /** Of `params`, by method. */
  readonly requests: ReadonlyMap<string, ZodType>;
  /** Of `params`, by method. */
  readonly notifications: ReadonlyMap<string, ZodType>;
  /** Of `result`, by the method of the request. */
  readonly results: ReadonlyMap<string, ZodType>;
  /** Of `error.data`, by code. */
  readonly errors: ReadonlyMap<number, ZodType>;
  /** Of a result that asks for input instead of answering. */
  readonly inputRequired: ZodType | undefined;
  /** Of a result that hands out a task instead of answering. */
  readonly createTask: ZodType | undefined;
}

/**
 * Builds the validators of a revision: the official SDK's where they say what the revision's schema says, ours where
 * it differs. Costs some milliseconds, so it is done once for each revision in use.
 */
export function createMessageSchemas(revision: Revision): MessageSchemas {
  const frames = createFrames(revisions[revision]);
  const known = (entries: Entries) => new Map(entries.filter(([method]) => isMessage(method, revision)));
  return {
    requests: known(requestEntries(frames)),
    notifications: known(notificationEntries(frames)),
    results: known(resultEntries(frames)),
    errors: new Map(errorEntries(frames)),
    inputRequired: inputRequiredResult(frames),
    createTask: createTaskResult(frames),
  };
}

function isMessage(method: string, revision: Revision): boolean {
  const form = methodFacts(method)?.forms[revision];
  return form === "core" || form === "extension";
}
