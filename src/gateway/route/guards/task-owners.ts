import { FairMap } from "../../../lib/bounded-map.ts";
import { GatewayError } from "../../../errors.ts";
import { anonymous, type Clock, type Exchange, limitKeyOf, type Principal } from "../../../core/exchange.ts";
import type { Guard, Interceptor, Reply } from "../../../core/pipeline.ts";
import { memberString, memberValue } from "../../../protocol/json/read.ts";
import type { Message, RequestMessage } from "../../../protocol/message.ts";
import { methodFacts } from "../../../protocol/methods.ts";
import { createdTaskId } from "../../../protocol/metadata.ts";
import type { TaskOwnerStore } from "../../../sessions/task-owner-store.ts";
import type { SharedTasks } from "../../context.ts";
import { resultMessage } from "../../../core/reply.ts";

/** How long the owner of a task is remembered; longer than servers are likely to keep tasks. */
const keptMs = 7 * 24 * 60 * 60_000;
const maxKept = 100_000;

/**
 * Creates the guard that binds tasks to the principal that started them: to others they do not exist (MCP 2025-11-25 and
 * the Tasks extension bind task ids to the authorization context). The upstream cannot do this, because behind the gateway
 * all callers may look the same. Tasks that were not started here are unknown too, except to anonymous callers, who cannot
 * be told apart anyway.
 */
export function createTaskOwners({ wall }: Pick<Clock, "wall">, store?: TaskOwnerStore): Guard {
  const owners = new FairMap<{ readonly id: string; readonly until: number }>(maxKept);

  function ownerOf(route: string, task: string): string | undefined {
    const key = taskKey(route, task);
    const owner = owners.get(key);
    // One that began before a restart.
    if (owner === undefined) return store?.get(key);
    return wall() >= owner.until ? undefined : owner.id;
  }

  function mayKnow({ route, principal }: Exchange, task: string): boolean {
    const owner = ownerOf(route, task);
    return owner === undefined ? isAnonymous(principal) : owner === principal.id;
  }

  /** A client reports about tasks of its own, whose ids it made; one that a caller started here is not among them. */
  function isForeignStatus({ route, principal, direction, message }: Exchange): boolean {
    if (direction !== "client-to-server" || message.kind !== "notification") return false;
    if (methodFacts(message.method)?.target !== "task") return false;
    const task = memberString(message, "params.taskId");
    const owner = task === undefined ? undefined : ownerOf(route, task);
    return owner !== undefined && owner !== principal.id;
  }

  function learn({ route, principal }: Exchange, answer: Message | undefined): void {
    const task = answer === undefined ? undefined : taskStartedBy(answer);
    if (task === undefined) return;
    // A known id stays with its owner, whatever the server says later.
    if (ownerOf(route, task) !== undefined) return;
    const until = wall() + keptMs;
    const key = taskKey(route, task);
    owners.set(limitKeyOf(principal), key, { id: principal.id, until });
    store?.set(key, principal.id, until);
  }

  return {
    enter: (exchange) => {
      const { message } = exchange;
      if (isForeignStatus(exchange)) return new GatewayError("invalid_params", "unknown task");
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

function taskStartedBy(answer: Message): string | undefined {
  if (answer.kind !== "result") return undefined;
  if (memberString(answer, "result.resultType") === "task") return memberString(answer, "result.taskId");
  return createdTaskId(answer);
}

function taskIdOf(task: unknown): string | undefined {
  const id: unknown = Reflect.get(Object(task), "taskId");
  return typeof id === "string" ? id : undefined;
}

/** Creates the step inside the guard that reads, for the tasks in a list, who started them at other gateways. */
export function createTaskLookup({ find }: Pick<SharedTasks, "find">): Interceptor {
  return (next) => async (exchange) => {
    const reply = await next(exchange);
    if (exchange.message.method !== "tasks/list" || reply.message?.kind !== "result") return reply;
    const tasks: unknown = Reflect.get(Object(memberValue(reply.message, "result")), "tasks");
    const ids = Array.isArray(tasks) ? tasks.flatMap((task) => taskIdOf(task) ?? []) : [];
    await find(ids.map((id) => taskKey(exchange.route, id)));
    return reply;
  };
}

/** A page of a task list without the tasks of others. Its cursor stays, so that the next page can be read. */
function withoutForeignTasks(
  exchange: Exchange,
  reply: Reply,
  mayKnow: (exchange: Exchange, task: string) => boolean,
): Reply {
  const { message } = reply;
  if (message?.kind !== "result" || isAnonymous(exchange.principal)) return reply;
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
