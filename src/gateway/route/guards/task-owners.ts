import { FairMap } from "../../../lib/bounded-map.ts";
import { GatewayError } from "../../../errors.ts";
import { anonymous, type Clock, type Exchange, limitKeyOf, type Principal } from "../../../core/exchange.ts";
import type { Guard, Handler, Interceptor, Reply } from "../../../core/pipeline.ts";
import { findAmbiguousName, type KnownNames, knownNames } from "../../../protocol/json/folded-names.ts";
import { type Span, spanOf } from "../../../protocol/json/outline.ts";
import { memberString, memberValue } from "../../../protocol/json/read.ts";
import type { Message, RequestMessage } from "../../../protocol/message.ts";
import { methodFacts } from "../../../protocol/methods.ts";
import { startedTaskId } from "../../../protocol/metadata.ts";
import type { TaskOwnerStore } from "../../../sessions/task-owner-store.ts";
import type { SharedTasks } from "../../context.ts";
import { resultMessage } from "../../../core/reply.ts";

/** How long the owner of a task is remembered; longer than servers are likely to keep tasks. */
const keptMs = 7 * 24 * 60 * 60_000;
const maxKept = 100_000;

/**
 * Creates the guard that binds tasks to the principal that started them: to others they do not exist (MCP 2025-11-25
 * and the Tasks extension bind task ids to the authorization context). The upstream cannot do this, because behind the
 * gateway all callers may look the same. Tasks that were not started here are unknown too, except to anonymous callers,
 * who are indistinguishable anyway.
 */
export function createTaskOwners({ wall, now }: Clock, store?: TaskOwnerStore): Guard {
  const owners = new FairMap<{ readonly id: string; readonly until: number }>(maxKept);

  function ownerOf(route: string, task: string): string | undefined {
    const key = taskKey(route, task);
    const owner = owners.get(key);
    // One that began before a restart.
    if (owner === undefined) return store?.get(key);
    return now() >= owner.until ? undefined : owner.id;
  }

  function mayKnow({ route, principal }: Exchange, task: string): boolean {
    const owner = ownerOf(route, task);
    return owner === undefined ? isAnonymous(principal) : owner === principal.id;
  }

  /**
   * A client may report on tasks that it runs itself, under its own ids, but not on a task that another caller started
   * here.
   */
  function isOfForeignTask({ route, principal, direction, message }: Exchange): boolean {
    if (direction !== "client-to-server") return false;
    const task = reportedTask(message) ?? relatedTask(message);
    const owner = task === undefined ? undefined : ownerOf(route, task);
    return owner !== undefined && owner !== principal.id;
  }

  function learn({ route, principal }: Exchange, answer: Message | undefined): void {
    const task = answer === undefined ? undefined : startedTaskId(answer);
    if (task === undefined) return;
    // A known id stays with its owner, whatever the server says later.
    if (ownerOf(route, task) !== undefined) return;
    const key = taskKey(route, task);
    owners.set(limitKeyOf(principal), key, { id: principal.id, until: now() + keptMs });
    store?.set(key, principal.id, wall() + keptMs);
  }

  return {
    enter: (exchange) => {
      const { message, direction } = exchange;
      const unclear = direction === "client-to-server" ? unclearTask(message) : undefined;
      if (unclear !== undefined) return new GatewayError("invalid_params", unclear);
      if (isOfForeignTask(exchange)) return new GatewayError("invalid_params", "unknown task");
      if (!isRequestOfClient(exchange, message) || message.method === "tools/call") return undefined;
      const unknown = tasksNamedBy(message).find((task) => !mayKnow(exchange, task));
      return unknown === undefined ? undefined : new GatewayError("invalid_params", "unknown task");
    },
    answered: (exchange, reply) => {
      const { message } = exchange;
      if (!isRequestOfClient(exchange, message)) return reply;
      if (message.method === "tools/call") learn(exchange, reply.message);
      return message.method === "tasks/list" ? withoutForeignTasks(exchange, reply, mayKnow) : reply;
    },
    failed: () => {},
  };
}

function isRequestOfClient({ direction }: Exchange, message: Message): message is RequestMessage {
  return direction === "client-to-server" && message.kind === "request";
}

/** The task that a notification is about. */
function reportedTask(message: Message): string | undefined {
  const isStatus = message.kind === "notification" && methodFacts(message.method)?.target === "task";
  return isStatus ? memberString(message, "params.taskId") : undefined;
}

/** The task that a message says it belongs to. */
function relatedTask(message: Message): string | undefined {
  for (const place of relatedTaskPlaces)
    if (spanOf(message.outline, place) !== undefined) return taskIdOf(memberValue(message, place));
  return undefined;
}

const relatedTaskPlaces = [
  "params._meta.io.modelcontextprotocol/related-task",
  "result._meta.io.modelcontextprotocol/related-task",
] as const;

/**
 * Why it is unclear which task a message is about: a server that reads ids leniently, or names without regard to letter
 * case, could find another task than this guard does.
 */
function unclearTask(message: Message): string | undefined {
  const { method = "", outline, bytes } = message;
  const isAboutTask = methodFacts(method)?.target === "task";
  if (isAboutTask && memberString(message, "params.taskId") === undefined) return "params.taskId must be a string";
  for (const place of relatedTaskPlaces) {
    const span = spanOf(outline, place);
    if (span === undefined) continue;
    const isClear = taskIdOf(memberValue(message, place)) !== undefined && isPlain(bytes, span, taskIdName);
    if (!isClear) return `${place} must be an object with a taskId`;
  }
  const filter = method === "subscriptions/listen" ? spanOf(outline, "params.notifications") : undefined;
  if (filter === undefined) return undefined;
  const wanted: unknown = Reflect.get(Object(memberValue(message, "params.notifications")), "taskIds");
  const isList = wanted === undefined || (Array.isArray(wanted) && wanted.every((task) => typeof task === "string"));
  return isList && isPlain(bytes, filter, taskIdsName)
    ? undefined
    : "params.notifications.taskIds must be a list of strings";
}

const taskIdName = knownNames([["taskId"]]);
const taskIdsName = knownNames([["taskIds"]]);

function isPlain(bytes: Buffer, span: Span, names: KnownNames | undefined): boolean {
  return findAmbiguousName(bytes, span, names) === undefined;
}

function isAnonymous({ id }: Principal): boolean {
  return id === anonymous.id;
}

/** Names a task among those of all routes. */
export function taskKey(route: string, task: string): string {
  return JSON.stringify([route, task]);
}

/** The tasks that a request names. */
export function tasksNamedBy(message: RequestMessage): readonly string[] {
  const facts = methodFacts(message.method);
  if (facts?.target === "task") {
    const task = memberString(message, "params.taskId");
    return task === undefined ? [] : [task];
  }
  if (message.method !== "subscriptions/listen") return [];
  const wanted: unknown = Reflect.get(Object(memberValue(message, "params.notifications")), "taskIds");
  return Array.isArray(wanted) ? wanted.filter((task) => typeof task === "string") : [];
}

function taskIdOf(task: unknown): string | undefined {
  const id: unknown = Reflect.get(Object(task), "taskId");
  return typeof id === "string" ? id : undefined;
}

/** Creates the step inside the guard that reads, for the tasks in a list, who started them at other gateways. */
export function createTaskLookup({ find }: Pick<SharedTasks, "find">): Interceptor {
  return (next) => (exchange) =>
    exchange.message.method === "tasks/list" ? readOwners(next, exchange) : next(exchange);

  async function readOwners(next: Handler, exchange: Exchange): Promise<Reply> {
    const reply = await next(exchange);
    if (reply.message?.kind !== "result") return reply;
    const tasks: unknown = Reflect.get(Object(memberValue(reply.message, "result")), "tasks");
    const ids = Array.isArray(tasks) ? tasks.flatMap((task) => taskIdOf(task) ?? []) : [];
    await find(ids.map((id) => taskKey(exchange.route, id)));
    return reply;
  }
}

/** A page of a task list without the tasks of others. Its cursor stays, so that the next page can be read. */
function withoutForeignTasks(
  exchange: Exchange,
  reply: Reply,
  mayKnow: (exchange: Exchange, task: string) => boolean,
): Reply {
  const { message } = reply;
  if (message?.kind !== "result") return reply;
  const result = Object(memberValue(message, "result")) as Readonly<Record<string, unknown>>;
  const { tasks } = result;
  if (!Array.isArray(tasks)) return reply;
  const own = tasks.filter((task: unknown) => {
    const id = taskIdOf(task);
    return id !== undefined && mayKnow(exchange, id);
  });
  if (own.length === tasks.length) return reply;
  return { ...reply, message: resultMessage(message.id, JSON.stringify({ ...result, tasks: own })) };
}
