import type { Diagnostic, NotificationMessage } from "../../protocol/message.ts";
import { revisions } from "../../protocol/revisions.ts";
import { endedTaskIn } from "../../protocol/task-end.ts";
import { checkProgress } from "../../protocol/validation-semantic.ts";
import { otherSide } from "./entry.ts";
import type { Books, Entry, NotificationStanding, Side } from "./entry.ts";
import { findings } from "./findings.ts";
import { cancelTargetOf, progressOf, subscriptionOf } from "./reading.ts";
import type { EndState } from "./states.ts";

/** What judging may lead to. */
export interface Consequences<Payload> {
  touch(entry: Entry<Payload>): void;
  end(entry: Entry<Payload>, state: EndState): boolean;
  report(diagnostic: Diagnostic, about: Entry<Payload> | undefined): void;
}

const unrelated = { type: "unrelated" } as const;

/** Says what a notification is about, and draws the consequences. */
export function judgeNotification<Payload>(
  books: Books<Payload>,
  then: Consequences<Payload>,
  direction: Side,
  notification: NotificationMessage,
): NotificationStanding<Payload> {
  switch (notification.method) {
    case "notifications/cancelled":
      return judgeCancel(books, then, direction, notification);
    case "notifications/progress":
      return judgeProgress(books, then, direction, notification);
    default:
      return judgeOther(books, then, direction, notification);
  }
}

/** A cancel counts only for an open request of the one who sends it (SC-054). */
function judgeCancel<Payload>(
  books: Books<Payload>,
  then: Consequences<Payload>,
  direction: Side,
  notification: NotificationMessage,
): NotificationStanding<Payload> {
  const target = cancelTargetOf(notification);
  if (target === undefined) return stray(then, findings["cancel.malformed"]);
  const own = books.request(direction, target.key);
  if (own?.method === "initialize") return stray(then, findings["cancel.initialize"], own);
  if (own?.wantsTask === true) return stray(then, findings["cancel.task"], own);
  const theirs = own === undefined ? books.request(otherSide(direction), target.key) : undefined;
  // MCP 2026-07-28, Cancellation: a server may name the listen request that it ends.
  const isTornDown = theirs?.plan.isStream === true;
  const cancelled = own ?? (isTornDown ? theirs : undefined);
  if (cancelled !== undefined) {
    then.end(cancelled, "cancelled");
    return { type: "cancelled", entry: cancelled };
  }
  if (books.ended(direction, target.key) !== undefined) return stray(then, findings["cancel.finished"]);
  return theirs === undefined
    ? stray(then, findings["cancel.unknown"])
    : stray(then, findings["cancel.wrong-side"], theirs);
}

/** Progress belongs to the request of the other side with exactly this token, and must rise (SC-055). */
function judgeProgress<Payload>(
  books: Books<Payload>,
  then: Consequences<Payload>,
  direction: Side,
  notification: NotificationMessage,
): NotificationStanding<Payload> {
  const progress = progressOf(notification);
  if (progress === undefined) return stray(then, findings["progress.malformed"]);
  const requester = otherSide(direction);
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
function judgeOther<Payload>(
  books: Books<Payload>,
  then: Consequences<Payload>,
  direction: Side,
  notification: NotificationMessage,
): NotificationStanding<Payload> {
  const facts = revisions[books.revision];
  const requester = otherSide(direction);
  if (facts.tasks === "core") {
    const task = endedTaskIn(notification);
    if (task !== undefined) books.endTask(requester, task);
  }
  const subscription = facts.listen ? subscriptionOf(notification) : undefined;
  if (subscription === undefined) return unrelated;
  const entry = books.request(requester, subscription.key);
  if (entry?.plan.isStream !== true) return stray(then, findings["subscription.unknown"], entry);
  then.touch(entry);
  return { type: "subscription", entry };
}

function stray<Payload>(
  then: Consequences<Payload>,
  diagnostic: Diagnostic,
  about?: Entry<Payload>,
): NotificationStanding<Payload> {
  then.report(diagnostic, about);
  return { type: "stray", diagnostic };
}
