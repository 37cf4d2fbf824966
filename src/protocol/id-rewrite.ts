import { createForwardedRequests } from "./id-crossings.ts";
import type { ForwardedRequest } from "./id-crossings.ts";
import { spliceIds } from "./id-splice.ts";
import type { IdEdit } from "./id-splice.ts";
import { idFrom, readId } from "./ids.ts";
import { spanOf } from "./json/outline.ts";
import type { MemberName } from "./json/outline.ts";
import { memberString, memberType } from "./json/read.ts";
import type { Message, NotificationMessage, RequestId, RequestMessage } from "./message.ts";
import { metadataOf } from "./metadata.ts";
import type { Era } from "./revisions.ts";
import { createdTaskId, endedTaskId, reportsTaskEnd } from "./task-end.ts";

/** A message on its way to the shared connection, or why it must not go there. */
export type RewriteResult =
  | { readonly ok: true; readonly message: Message }
  /** A cancel of nothing that this client has in flight: sent on as it is, it could hit another client's request. */
  | { readonly ok: false; readonly reason: "malformed" | "not-in-flight" };

/** Whose a message from the shared connection is, in that client's own ids. */
export type RestoreResult<Owner> =
  | { readonly type: "owned"; readonly owner: Owner; readonly message: Message }
  /** It names none of our ids: a request of the server, a log line, a change that concerns everybody. */
  | { readonly type: "shared"; readonly message: Message }
  /** It names an id of ours that is done with, or one that we never gave. */
  | { readonly type: "stray"; readonly reason: "finished" | "unknown"; readonly message: Message };

/** One client of a shared connection. */
export interface ClientIdRewriter {
  /** Puts our ids in place of the client's. What the client answers to the server's own requests stays as it is. */
  rewrite(message: Message): RewriteResult;
  /** Forgets everything of this client, and names its requests in flight as the server knows them. */
  release(): readonly RequestId[];
}

/**
 * Rewrites ids, progress tokens, cancel targets and subscription ids between several clients and the one upstream
 * connection that they share, and back. This table is the only link between the two legs' exchanges (SC-059).
 */
export interface IdRewriter<Owner> {
  join(owner: Owner): ClientIdRewriter;
  restore(message: Message): RestoreResult<Owner>;
  /** Forgets a request in flight by the id that the server knows; its answer will be a stray. */
  forget(id: RequestId): void;
  /** What is remembered: requests in flight, and those whose task lives on. */
  readonly size: number;
}

interface Leg<Owner> extends ClientIdRewriter {
  readonly owner: Owner;
}

const subscriptionIn = {
  params: "params._meta.io.modelcontextprotocol/subscriptionId",
  result: "result._meta.io.modelcontextprotocol/subscriptionId",
} as const;

/**
 * Makes the table of one connection. Ids of ours are integers that count up and never come twice on it
 * (MCP 2025-11-25, Overview: within a session an id is used once); a token is the number of its request.
 *
 * @example
 * const leg = rewriter.join(session);
 * const rewritten = leg.rewrite(request); // { ok: true, message: the same call under our id }
 * const restored = rewriter.restore(answer); // { type: "owned", owner: session, message: the answer under theirs }
 */
export function createIdRewriter<Owner>(era: Era): IdRewriter<Owner> {
  const crossings = createForwardedRequests<Leg<Owner>>();

  function cross(leg: Leg<Owner>, request: RequestMessage): RewriteResult {
    const token = idIn(request, "params._meta.progressToken");
    const hasTasks = era === "legacy";
    const { number } = crossings.add({
      owner: leg,
      method: request.method,
      id: request.id,
      token,
      wantsTask: hasTasks && memberType(request, "params.task") === "object",
      aboutTask: hasTasks && isAboutTask(request) ? memberString(request, "params.taskId") : undefined,
    });
    const id = idFrom(number);
    const edits: IdEdit[] = [{ name: "id", id }];
    // A token that is none stays: nobody can be told of progress by it.
    if (token !== undefined) edits.push({ name: "params._meta.progressToken", id });
    return { ok: true, message: spliceIds(request, edits) };
  }

  function cancel(leg: Leg<Owner>, notification: NotificationMessage): RewriteResult {
    const target = idIn(notification, "params.requestId");
    if (target === undefined) return { ok: false, reason: "malformed" };
    const crossing = crossings.search(
      ({ owner, task, id }) => owner === leg && task === undefined && id.key === target.key,
    );
    if (crossing === undefined) return { ok: false, reason: "not-in-flight" };
    // A request for a task is cancelled by tasks/cancel alone, so its answer may still come.
    if (!crossing.wantsTask) crossings.remove(crossing);
    const edit: IdEdit = { name: "params.requestId", id: idFrom(crossing.number) };
    return { ok: true, message: spliceIds(notification, [edit]) };
  }

  function restoreAnswer(answer: Message & { kind: "result" | "error" }): RestoreResult<Owner> {
    const crossing = crossings.find(numberOf(answer.id));
    if (crossing === undefined || crossing.task !== undefined) return stray(answer, answer.id);
    const { id, number, method, aboutTask, wantsTask } = crossing;
    const created = wantsTask ? createdTaskId(answer) : undefined;
    if (created === undefined) crossings.remove(crossing);
    else crossings.keepTask(crossing, created);
    if (aboutTask !== undefined && reportsTaskEnd(method, answer)) endTask(aboutTask);
    const edits: IdEdit[] = [{ name: "id", id }];
    const isOwnSubscription = numberOf(idIn(answer, subscriptionIn.result)) === number;
    if (isOwnSubscription) edits.push({ name: subscriptionIn.result, id });
    return owned(crossing, answer, edits);
  }

  function restoreNotification(notification: NotificationMessage): RestoreResult<Owner> {
    const { method } = notification;
    if (method === "notifications/progress") {
      const token = idIn(notification, "params.progressToken");
      const crossing = crossings.find(numberOf(token));
      if (crossing?.token === undefined) return stray(notification, token);
      return owned(crossing, notification, [{ name: "params.progressToken", id: crossing.token }]);
    }
    if (era === "legacy") return restoreByTask(notification);
    // MCP 2026-07-28: servers ask nothing, so what they cancel is a listen request of a client.
    const isEnd = method === "notifications/cancelled";
    return restoreSubscription(notification, isEnd ? "params.requestId" : subscriptionIn.params, isEnd);
  }

  function restoreSubscription(
    notification: NotificationMessage,
    name: MemberName,
    isEnd: boolean,
  ): RestoreResult<Owner> {
    if (spanOf(notification.outline, name) === undefined) return { type: "shared", message: notification };
    const id = idIn(notification, name);
    const crossing = crossings.find(numberOf(id));
    if (crossing === undefined) return stray(notification, id);
    if (isEnd) crossings.remove(crossing);
    return owned(crossing, notification, [{ name, id: crossing.id }]);
  }

  /** What belongs to a task belongs to the client that asked for it; everything else may concern anybody. */
  function restoreByTask(message: NotificationMessage | RequestMessage): RestoreResult<Owner> {
    const named = crossings.tasks === 0 ? undefined : metadataOf(message).taskId;
    const crossing = named === undefined ? undefined : crossings.search(({ task }) => task === named);
    if (crossing === undefined) return { type: "shared", message };
    if (endedTaskId(message) !== undefined) crossings.remove(crossing);
    return owned(crossing, message, []);
  }

  function endTask(ended: string): void {
    const crossing = crossings.search(({ task }) => task === ended);
    if (crossing !== undefined) crossings.remove(crossing);
  }

  function stray(message: Message, id: RequestId | undefined): RestoreResult<Owner> {
    const number = numberOf(id);
    return {
      type: "stray",
      reason: number > 0 && number <= crossings.last ? "finished" : "unknown",
      message,
    };
  }

  return {
    join: (owner) => {
      const leg: Leg<Owner> = {
        owner,
        rewrite: (message) => {
          if (message.kind === "request") return cross(leg, message);
          return message.method === "notifications/cancelled" ? cancel(leg, message) : { ok: true, message };
        },
        release: () => {
          const inFlight = crossings.removeAll(leg).filter(({ task }) => task === undefined);
          return inFlight.map(({ number }) => idFrom(number));
        },
      };
      return leg;
    },
    restore: (message) => {
      switch (message.kind) {
        case "result":
        case "error":
          return restoreAnswer(message);
        case "notification":
          return restoreNotification(message);
        case "request":
          return restoreByTask(message);
      }
    },
    forget: (id) => {
      const crossing = crossings.find(numberOf(id));
      if (crossing !== undefined && crossing.task === undefined) crossings.remove(crossing);
    },
    get size() {
      return crossings.size;
    },
  };
}

function owned<Owner>(
  { owner }: ForwardedRequest<Leg<Owner>>,
  message: Message,
  edits: readonly IdEdit[],
): RestoreResult<Owner> {
  return { type: "owned", owner: owner.owner, message: spliceIds(message, edits) };
}

/** The number that an id of ours stands for; 0 for all that cannot be one. */
function numberOf(id: RequestId | undefined): number {
  const number = id?.key.startsWith("n:") === true ? Number(id.key.slice(2)) : 0;
  return Number.isSafeInteger(number) && number > 0 ? number : 0;
}

function isAboutTask({ method }: RequestMessage): boolean {
  return method.startsWith("tasks/");
}

function idIn(message: Message, name: MemberName): RequestId | undefined {
  const span = spanOf(message.outline, name);
  if (span === undefined) return undefined;
  const reading = readId(message.bytes, span.start, span.end);
  return reading.ok && !reading.fractional ? reading.id : undefined;
}
