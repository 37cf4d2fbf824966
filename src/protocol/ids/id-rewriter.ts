import { type IdEdit, replaceIds } from "../message-edit.ts";
import {
  idFrom,
  type Message,
  type NotificationMessage,
  readId,
  type RequestId,
  type RequestMessage,
} from "../message.ts";
import { type MemberName, spanOf } from "../json/outline.ts";
import { memberString, memberType } from "../json/read.ts";
import { createdTaskId, endedTaskId, metadataOf, reportsTaskEnd } from "../metadata.ts";
import type { Era } from "../revisions.ts";

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
    return { ok: true, message: replaceIds(request, edits) };
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
    return { ok: true, message: replaceIds(notification, [edit]) };
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
  return { type: "owned", owner: owner.owner, message: replaceIds(message, edits) };
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

/** A client's request on a shared connection: under which number it crossed, and what to turn that back into. */
export interface ForwardedRequest<Owner> {
  /** The id, and the progress token if there is one, that the server knows. */
  readonly number: number;
  readonly owner: Owner;
  readonly method: string;
  readonly id: RequestId;
  readonly token: RequestId | undefined;
  /** It may end in a task instead of an answer (MCP 2025-11-25, Tasks). */
  readonly wantsTask: boolean;
  /** The task it asks about. */
  readonly aboutTask: string | undefined;
  /** The task that its answer created, and that now keeps it here. */
  task: string | undefined;
}

/** The crossings of one connection. */
export interface ForwardedRequests<Owner> {
  /** Takes a request in under the next number: they count up, and none ever comes twice. */
  add(facts: Omit<ForwardedRequest<Owner>, "number" | "task">): ForwardedRequest<Owner>;
  find(number: number): ForwardedRequest<Owner> | undefined;
  /** The newest that fits; looks through all, which is for what happens rarely. */
  search(fits: (crossing: ForwardedRequest<Owner>) => boolean): ForwardedRequest<Owner> | undefined;
  remove(crossing: ForwardedRequest<Owner>): void;
  /** Takes out all that belong to one owner. */
  removeAll(owner: Owner): readonly ForwardedRequest<Owner>[];
  /** The answer has made a task: the crossing stays until that ends, or gives way to newer ones. */
  keepTask(crossing: ForwardedRequest<Owner>, task: string): void;
  readonly size: number;
  readonly tasks: number;
  /** The number given last. */
  readonly last: number;
}

/** Tasks beyond this number are forgotten, the oldest first. */
const mostTasks = 1000;

/**
 * Makes the table. A crossing stands at its number modulo the length, and numbers whose place is taken are skipped:
 * so nothing is ever searched for by number, and nothing but the crossings themselves is allocated.
 */
export function createForwardedRequests<Owner>(): ForwardedRequests<Owner> {
  let slots: (ForwardedRequest<Owner> | undefined)[] = Array.from({ length: 64 });
  let size = 0;
  let tasks = 0;
  let last = 0;

  /** Different places stay different when the length doubles. */
  function widen(): void {
    const wider: typeof slots = Array.from({ length: slots.length * 2 });
    for (const crossing of slots) if (crossing !== undefined) wider[crossing.number % wider.length] = crossing;
    slots = wider;
  }

  function remove(crossing: ForwardedRequest<Owner>): void {
    const at = crossing.number % slots.length;
    if (slots[at] !== crossing) return;
    slots[at] = undefined;
    size--;
    if (crossing.task !== undefined) tasks--;
  }

  return {
    add: (facts) => {
      if (size * 2 >= slots.length) widen();
      do last++;
      while (slots[last % slots.length] !== undefined);
      const crossing = { ...facts, number: last, task: undefined };
      slots[last % slots.length] = crossing;
      size++;
      return crossing;
    },
    find: (number) => {
      const crossing = slots[number % slots.length];
      return crossing?.number === number ? crossing : undefined;
    },
    search: (fits) => {
      let newest: ForwardedRequest<Owner> | undefined;
      for (const crossing of slots) {
        if (crossing !== undefined && crossing.number > (newest?.number ?? 0) && fits(crossing)) newest = crossing;
      }
      return newest;
    },
    remove,
    removeAll: (owner) => {
      const all = slots.filter((crossing) => crossing !== undefined);
      const theirs = all.filter((crossing) => crossing.owner === owner);
      for (const crossing of theirs) remove(crossing);
      return theirs;
    },
    keepTask: (crossing, task) => {
      crossing.task = task;
      tasks++;
      if (tasks <= mostTasks) return;
      let oldest = crossing;
      for (const one of slots) if (one?.task !== undefined && one.number < oldest.number) oldest = one;
      remove(oldest);
    },
    get size() {
      return size;
    },
    get tasks() {
      return tasks;
    },
    get last() {
      return last;
    },
  };
}
