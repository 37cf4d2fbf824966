import { memberValue } from "./json/read.ts";
import type { Message } from "./message.ts";

const finalStatuses: ReadonlySet<unknown> = new Set(["completed", "failed", "cancelled"]);

/** The task that a status notification says has ended (MCP 2025-11-25, Tasks); undefined if none has. */
export function endedTaskId(notification: Message): string | undefined {
  if (notification.method !== "notifications/tasks/status") return undefined;
  const { taskId, status } = taskFields(memberValue(notification, "params"));
  return finalStatuses.has(status) ? taskId : undefined;
}

/**
 * Whether the answer to a request about a task says that the task has ended: one to `tasks/result` always does,
 * because it waits for the end; one to another method if it names a final status.
 */
export function reportsTaskEnd(method: string, answer: Message): boolean {
  if (method === "tasks/result") return true;
  return answer.kind === "result" && finalStatuses.has(taskFields(memberValue(answer, "result")).status);
}

/** The task that a result has created for its request: `result.task` with an id (MCP 2025-11-25, Tasks). */
export function createdTaskId(answer: Message): string | undefined {
  return answer.kind === "result" ? taskFields(memberValue(answer, "result.task")).taskId : undefined;
}

function taskFields(value: unknown): { taskId: string | undefined; status: unknown } {
  if (typeof value !== "object" || value === null) return { taskId: undefined, status: undefined };
  const taskId: unknown = Object.hasOwn(value, "taskId") ? Reflect.get(value, "taskId") : undefined;
  const status: unknown = Object.hasOwn(value, "status") ? Reflect.get(value, "status") : undefined;
  return { taskId: typeof taskId === "string" ? taskId : undefined, status };
}
