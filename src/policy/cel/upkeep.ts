/**
 * Whether a method belongs to the upkeep of a connection: it opens it, lists what there is, reports, or follows up on a
 * request that was decided about already. Rules can deny it; where none says anything, it passes.
 */
export function isLifecycleMethod(method: string): boolean {
  return lifecycleMethods.has(method) || method.startsWith("notifications/");
}

const lifecycleMethods: ReadonlySet<string> = new Set([
  "initialize",
  "ping",
  "server/discover",
  "tools/list",
  "prompts/list",
  "resources/list",
  "resources/templates/list",
  "logging/setLevel",
  "subscriptions/listen",
  "resources/unsubscribe",
  "tasks/get",
  "tasks/result",
  "tasks/cancel",
  "tasks/update",
  "tasks/list",
]);
