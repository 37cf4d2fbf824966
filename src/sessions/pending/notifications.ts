import { type Diagnostic, diagnosticTable } from "../../protocol/diagnostics.ts";
import type { NotificationMessage } from "../../protocol/message.ts";
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
import type { FinalState } from "./states.ts";
import { cancelTargetOf, progressOf, subscriptionOf } from "./message-fields.ts";

/** How a match takes effect. */
export interface NotificationEffects<Payload> {
  touch(entry: Entry<Payload>): void;
  end(entry: Entry<Payload>, state: FinalState): boolean;
  report(diagnostic: Diagnostic, about: Entry<Payload> | undefined): void;
}

const unrelated = { type: "unrelated" } as const;

/** Finds the request that a notification refers to, and applies its effect: an end, progress, activity. */
export function matchNotification<Payload>(
  lookup: RequestLookup<Payload>,
  effects: NotificationEffects<Payload>,
  direction: RequestDirection,
  notification: NotificationMessage,
): NotificationMatch<Payload> {
  switch (notification.method) {
    case "notifications/cancelled":
      return matchCancel(lookup, effects, direction, notification);
    case "notifications/progress":
      return matchProgress(lookup, effects, direction, notification);
    default:
      return matchOther(lookup, effects, direction, notification);
  }
}

/** Only the sender of an open request can cancel it (SC-054). */
function matchCancel<Payload>(
  lookup: RequestLookup<Payload>,
  effects: NotificationEffects<Payload>,
  direction: RequestDirection,
  notification: NotificationMessage,
): NotificationMatch<Payload> {
  const target = cancelTargetOf(notification);
  if (target === undefined) return stray(effects, diagnosticTable["cancel.malformed"]);
  const own = lookup.request(direction, target.key);
  if (own?.method === "initialize") return stray(effects, diagnosticTable["cancel.initialize"], own);
  if (own?.wantsTask === true) return stray(effects, diagnosticTable["cancel.task"], own);
  const theirs = own === undefined ? lookup.request(oppositeDirection(direction), target.key) : undefined;
  // MCP 2026-07-28, Cancellation: a server may cancel the listen request that it ends.
  const isTornDown = theirs?.rules.isStream === true;
  const cancelled = own ?? (isTornDown ? theirs : undefined);
  if (cancelled !== undefined) {
    effects.end(cancelled, "cancelled");
    return { type: "cancelled", entry: cancelled };
  }
  if (lookup.ended(direction, target.key) !== undefined) return stray(effects, diagnosticTable["cancel.finished"]);
  return theirs === undefined
    ? stray(effects, diagnosticTable["cancel.unknown"])
    : stray(effects, diagnosticTable["cancel.wrong-side"], theirs);
}

/** Progress belongs to the request of the other side with exactly this token, and must rise (SC-055). */
function matchProgress<Payload>(
  lookup: RequestLookup<Payload>,
  effects: NotificationEffects<Payload>,
  direction: RequestDirection,
  notification: NotificationMessage,
): NotificationMatch<Payload> {
  const progress = progressOf(notification);
  if (progress === undefined) return stray(effects, diagnosticTable["progress.malformed"]);
  const requester = oppositeDirection(direction);
  const entry = lookup.progressListener(requester, progress.token.key);
  const hasEnded = entry === undefined && lookup.endedToken(requester, progress.token.key) !== undefined;
  const isKnown = entry !== undefined || hasEnded;
  const [diagnostic] = checkProgress(notification, { isKnown, hasEnded, last: entry?.progress });
  if (diagnostic !== undefined) return stray(effects, diagnostic, entry);
  // Without an entry there was a diagnostic.
  if (entry === undefined) return unrelated;
  entry.progress = progress.value;
  effects.touch(entry);
  return { type: "progress", entry, value: progress.value };
}

/** Other notifications may belong to a listen request (SC-057) or end a task. */
function matchOther<Payload>(
  lookup: RequestLookup<Payload>,
  effects: NotificationEffects<Payload>,
  direction: RequestDirection,
  notification: NotificationMessage,
): NotificationMatch<Payload> {
  const facts = revisions[lookup.revision];
  const requester = oppositeDirection(direction);
  if (facts.tasks === "core") {
    const task = endedTaskId(notification);
    if (task !== undefined) lookup.endTask(requester, task);
  }
  const subscription = facts.listen ? subscriptionOf(notification) : undefined;
  if (subscription === undefined) return unrelated;
  const entry = lookup.request(requester, subscription.key);
  if (entry?.rules.isStream !== true) return stray(effects, diagnosticTable["subscription.unknown"], entry);
  effects.touch(entry);
  return { type: "subscription", entry };
}

function stray<Payload>(
  effects: NotificationEffects<Payload>,
  diagnostic: Diagnostic,
  about?: Entry<Payload>,
): NotificationMatch<Payload> {
  effects.report(diagnostic, about);
  return { type: "stray", diagnostic };
}
