import { limitKeyOf, type Principal } from "../../core/exchange.ts";
import { GatewayError } from "../../errors.ts";
import { andThen, type MaybePromise } from "../../lib/is-promise.ts";
import { decodeLabel } from "../../protocol/ids/label.ts";
import { spanOf } from "../../protocol/json/outline.ts";
import { memberString } from "../../protocol/json/read.ts";
import type { Message } from "../../protocol/message.ts";
import type { Era } from "../../protocol/revisions.ts";
import type { ClusterMember, GatewayContext } from "../context.ts";
import { maxListened } from "../route/guards/listen-bounds.ts";
import { taskKey, tasksNamedBy } from "../route/guards/task-owners.ts";
import type { Route } from "../route/route.ts";
import { parseEventId } from "../route/session-streams.ts";
import type { RemotePeer } from "./peer-requests.ts";

/** What a request does with its session: carry a message, open a stream, or end it. */
export type SessionUse = "message" | "stream" | "end";

/** The parts of a request for a session that decide who serves it. */
export interface SessionRequest {
  readonly use: SessionUse;
  readonly session: { readonly id: string; readonly openedBy: string | undefined; readonly openedAt: number };
  /** Whether the session lives in one process. */
  readonly holdsSessions: boolean;
  readonly lastEventId: string | undefined;
}

/**
 * The gateway that has to serve a request; undefined if any can. A session that lives in one process is served
 * by its owner. Else only streams need a certain gateway: a resumed one the gateway that sent its events, a new one the
 * gateway that opened the session and reads the upstream's stream.
 */
export async function peerFor(cluster: ClusterMember, request: SessionRequest): Promise<RemotePeer | undefined> {
  const { use, session, holdsSessions, lastEventId } = request;
  const { id, openedBy = cluster.node, openedAt } = session;
  if (holdsSessions) {
    const owner = await cluster.ownerOf({ id, openedBy, openedAt });
    return owner === cluster.node ? undefined : (reachable(cluster, owner) ?? notYet());
  }
  if (use !== "stream") return undefined;
  const label = lastEventId === undefined ? undefined : decodeLabel(parseEventId(lastEventId).label);
  const sender = label?.ok === true ? label.parts.node : openedBy;
  return sender === cluster.node ? undefined : (reachable(cluster, sender) ?? reachable(cluster, openedBy));
}

/** A gateway that is alive and has an address. */
export function reachable({ peers }: Pick<ClusterMember, "peers">, node: string | undefined): RemotePeer | undefined {
  const peer = node === undefined ? undefined : peers.get(node);
  return node === undefined || peer?.url === undefined ? undefined : { node, url: peer.url, gone: peer.gone };
}

/**
 * The worker that runs the server of a request, where several sessions or callers share that server; undefined,
 * often at once, if it is this one or there is no such server. `principal` is who shares it.
 */
export function peerWithServer(
  cluster: ClusterMember,
  { name, upstream }: Pick<Route, "name" | "upstream">,
  principal: Principal,
  era: Era,
): MaybePromise<RemotePeer | undefined> {
  const sharing = cluster.serverOwner === undefined ? undefined : upstream().sharedServer(era);
  if (cluster.serverOwner === undefined || sharing === undefined) return undefined;
  const owner = cluster.serverOwner(sharing === "everybody" ? name : `${name} ${limitKeyOf(principal)}`);
  return andThen(owner, (node) => (node === cluster.node ? undefined : (reachable(cluster, node) ?? notYet())));
}

/** The owner has just taken over the session, and its lease has not been read yet. */
function notYet(): never {
  throw peerGone();
}

/** The error while the gateway that serves a session cannot be reached, and its lease has not ended. */
export function peerGone(): GatewayError {
  return new GatewayError("store_failed", "the gateway that serves this session cannot be reached; try again soon", {
    details: { retryAfter: 2 },
  });
}

/**
 * The gateway that holds what a request continues: a call that waits for input, or a task. Undefined, often
 * at once, if there is none or it is here; also if that gateway is down, so that its successor answers.
 */
export function peerHolding(
  { suspendedCalls }: Pick<GatewayContext, "suspendedCalls">,
  cluster: ClusterMember,
  route: Pick<Route, "name" | "upstream">,
  principal: Principal,
  message: Message,
): MaybePromise<RemotePeer | undefined> {
  if (message.kind !== "request") return undefined;
  const peerAt = (node: string | undefined): RemotePeer | undefined =>
    node === cluster.node ? undefined : reachable(cluster, node);
  if (spanOf(message.outline, "params.requestState") !== undefined) {
    const given = memberString(message, "params.requestState") ?? "";
    const { federation } = route.upstream();
    // A federation puts its own seal around the state of a member.
    const text = federation === undefined ? given : federation.ownState({ route: route.name, principal }, given);
    return text === undefined ? undefined : peerAt(suspendedCalls.holderOf(text, route.name, principal));
  }
  // A request that names more is refused wherever it is served.
  const tasks = tasksNamedBy(message).slice(0, maxListened);
  if (tasks.length === 0) return undefined;
  return cluster.tasks
    .find(tasks.map((task) => taskKey(route.name, task)))
    .then((nodes) => peerAt(nodes.find((node) => node !== undefined)));
}
