import type { Diagnostic, NotificationMessage } from "../../protocol/message.ts";
import { revisions } from "../../protocol/revisions.ts";
import { endedTaskId } from "../../protocol/metadata.ts";
import { checkProgress } from "../../protocol/validation/semantic.ts";
import {
  type Entry,
  type NotificationMatch,
  oppositeDirection,
  type RequestDirection,
  type RequestLookup,
} from "./entry.ts";
import { correlationDiagnostics } from "./diagnostics.ts";
import { cancelTargetOf, progressOf, subscriptionOf } from "./message-fields.ts";
import type { FinalState } from "./states.ts";

/** What judging may lead to. */
export interface NotificationEffects<Payload> {
  touch(entry: Entry<Payload>): void;
  end(entry: Entry<Payload>, state: FinalState): boolean;
  report(diagnostic: Diagnostic, about: Entry<Payload> | undefined): void;
}

const unrelated = { type: "unrelated" } as const;

/** Says what a notification is about, and draws the consequences. */
export function matchNotification<Payload>(
  books: RequestLookup<Payload>,
  then: NotificationEffects<Payload>,
  direction: RequestDirection,
  notification: NotificationMessage,
): NotificationMatch<Payload> {
  switch (notification.method) {
    case "notifications/cancelled":
      return matchCancel(books, then, direction, notification);
    case "notifications/progress":
      return matchProgress(books, then, direction, notification);
    default:
      return matchOther(books, then, direction, notification);
  }
}

/** A cancel counts only for an open request of the one who sends it (SC-054). */
function matchCancel<Payload>(
  books: RequestLookup<Payload>,
  then: NotificationEffects<Payload>,
  direction: RequestDirection,
  notification: NotificationMessage,
): NotificationMatch<Payload> {
  const target = cancelTargetOf(notification);
  if (target === undefined) return stray(then, correlationDiagnostics["cancel.malformed"]);
  const own = books.request(direction, target.key);
  if (own?.method === "initialize") return stray(then, correlationDiagnostics["cancel.initialize"], own);
  if (own?.wantsTask === true) return stray(then, correlationDiagnostics["cancel.task"], own);
  const theirs = own === undefined ? books.request(oppositeDirection(direction), target.key) : undefined;
  // MCP 2026-07-28, Cancellation: a server may name the listen request that it ends.
  const isTornDown = theirs?.plan.isStream === true;
  const cancelled = own ?? (isTornDown ? theirs : undefined);
  if (cancelled !== undefined) {
    then.end(cancelled, "cancelled");
    return { type: "cancelled", entry: cancelled };
  }
  if (books.ended(direction, target.key) !== undefined) return stray(then, correlationDiagnostics["cancel.finished"]);
  return theirs === undefined
    ? stray(then, correlationDiagnostics["cancel.unknown"])
    : stray(then, correlationDiagnostics["cancel.wrong-side"], theirs);
}

/** Progress belongs to the request of the other side with exactly this token, and must rise (SC-055). */
function matchProgress<Payload>(
  books: RequestLookup<Payload>,
  then: NotificationEffects<Payload>,
  direction: RequestDirection,
  notification: NotificationMessage,
): NotificationMatch<Payload> {
  const progress = progressOf(notification);
  if (progress === undefined) return stray(then, correlationDiagnostics["progress.malformed"]);
  const requester = oppositeDirection(direction);
  const entry = books.listener(requester, progress.token.key);
  const hasEnded = entry === undefined && books.endedToken(requester, progress.token.key) !== undefined;
  const isKnown = entry !== undefined || hasEnded;
  const [diagnostic] = checkProgress(notification, { isKnown, hasEnded, last: entry?.progress });
  if (diagnostic !== undefined) return stray(then, diagnostic, entry);
  // A token that is neither known nor ended is a diagnostic, so there is an entry now.
  if (entry === undefined) return unrelated;
  entry.progress = progress.value;
  then.touch(entry);
  return { type: "progress", entry, value: progress.value };
}

/** Other notifications may belong to a listen request (SC-057) or end a task. */
function matchOther<Payload>(
  books: RequestLookup<Payload>,
  then: NotificationEffects<Payload>,
  direction: RequestDirection,
  notification: NotificationMessage,
): NotificationMatch<Payload> {
  const facts = revisions[books.revision];
  const requester = oppositeDirection(direction);
  if (facts.tasks === "core") {
    const task = endedTaskId(notification);
    if (task !== undefined) books.endTask(requester, task);
  }
  const subscription = facts.listen ? subscriptionOf(notification) : undefined;
  if (subscription === undefined) return unrelated;
  const entry = books.request(requester, subscription.key);
  if (entry?.plan.isStream !== true) return stray(then, correlationDiagnostics["subscription.unknown"], entry);
  then.touch(entry);
  return { type: "subscription", entry };
}

function stray<Payload>(
  then: NotificationEffects<Payload>,
  diagnostic: Diagnostic,
  about?: Entry<Payload>,
): NotificationMatch<Payload> {
  then.report(diagnostic, about);
  return { type: "stray", diagnostic };
}
