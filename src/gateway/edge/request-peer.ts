import type { Principal } from "../../core/exchange.ts";
import { spanOf } from "../../protocol/json/outline.ts";
import { memberString } from "../../protocol/json/read.ts";
import type { Message } from "../../protocol/message.ts";
import type { ClusterMember, GatewayContext } from "../context.ts";
import { taskKey, tasksNamedBy } from "../route/guards/task-owners.ts";
import type { Route } from "../route/route.ts";

/**
 * The URL of the gateway that holds what a request goes on with: a call that waits for input, or a task. Undefined, often
 * at once, if there is no such thing or it is here; also if that gateway has gone, so that its successor answers.
 */
export function peerHolding(
  { suspendedCalls }: Pick<GatewayContext, "suspendedCalls">,
  cluster: ClusterMember,
  route: Pick<Route, "name" | "upstream">,
  principal: Principal,
  message: Message,
): Promise<string | undefined> | string | undefined {
  if (message.kind !== "request") return undefined;
  const urlOf = (node: string | undefined): string | undefined =>
    node === undefined || node === cluster.node ? undefined : cluster.peers.get(node);
  if (spanOf(message.outline, "params.requestState") !== undefined) {
    const given = memberString(message, "params.requestState") ?? "";
    const { federation } = route.upstream();
    // A federation puts its own seal around the state of a member.
    const text = federation === undefined ? given : federation.ownState({ route: route.name, principal }, given);
    return text === undefined ? undefined : urlOf(suspendedCalls.holderOf(text, route.name, principal));
  }
  const tasks = tasksNamedBy(message);
  if (tasks.length === 0) return undefined;
  return cluster.tasks
    .find(tasks.map((task) => taskKey(route.name, task)))
    .then((nodes) => urlOf(nodes.find((node) => node !== undefined)));
}
