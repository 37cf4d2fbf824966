import type { IncomingMessage, ServerResponse } from "node:http";

import { GatewayError } from "../../errors.ts";
import { errorFields } from "../../telemetry/log.ts";
import type { ClusterMember, GatewayContext } from "../context.ts";
import type { Route } from "../route/route.ts";
import {
  isRefusedByDistrust,
  isRefusedByLeaving,
  NotThePeerError,
  passOn,
  PeerUnreachableError,
  type RemotePeer,
  sendToPeer,
} from "./peer-requests.ts";
import type { HttpCaller } from "./route-authentication.ts";
import { peerGone, reachable } from "./session-peer.ts";

/** A client's request that another gateway has to serve. */
export interface HandedRequest {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly route: Route;
  readonly caller: HttpCaller;
  readonly body: Buffer | undefined;
}

/**
 * The outcome: answered there, never received, lost after the call may have run, or refused because that gateway
 * shuts down too.
 */
export type HandOverOutcome = "answered" | "unreachable" | "lost" | "leaving";

type HandOverDeps = Pick<GatewayContext, "log" | "clock" | "metrics" | "handedOver">;

/** Forwards a request to a peer and returns its answer to the client. */
export async function handTo(
  gateway: HandOverDeps,
  cluster: ClusterMember,
  peer: RemotePeer,
  handed: HandedRequest,
  isLeaving = false,
): Promise<HandOverOutcome> {
  let answer: IncomingMessage;
  try {
    answer = await send(gateway, cluster, peer, handed, { isAnswer: false, isLeaving });
  } catch (error) {
    if (error instanceof NotThePeerError) {
      const { node, url } = peer;
      gateway.log.error({ peer: node, url }, "another process answers at the address of a peer");
    } else gateway.log.debug(errorFields(GatewayError.from(error)), "a peer cannot be reached");
    return error instanceof PeerUnreachableError ? "unreachable" : "lost";
  }
  if (isRefusedByLeaving(answer)) {
    answer.resume();
    return "leaving";
  }
  if (isRefusedByDistrust(answer)) {
    answer.resume();
    const advice = "compare the clocks, and `cluster.secret` or `state.keys`";
    gateway.log.error(
      { peer: peer.node, url: peer.url, advice },
      "a peer rejects the requests that this gateway forwards",
    );
    return "unreachable";
  }
  passOn(answer, handed.response);
  gateway.metrics.metrics.forwarded.labels({ route: handed.route.name }).inc();
  return "answered";
}

/** Forwards the client's response to the gateway that sent the request; false if there is none. */
export async function deliverAnswer(
  gateway: HandOverDeps,
  cluster: ClusterMember,
  handed: HandedRequest,
): Promise<boolean> {
  for (const node of cluster.peers.keys()) {
    const peer = reachable(cluster, node);
    if (peer === undefined) continue;
    try {
      const answer = await send(gateway, cluster, peer, handed, { isAnswer: true, isLeaving: false });
      answer.resume();
      if (answer.statusCode === 202) return true;
    } catch {
      // That gateway is down, and its pending requests are lost.
    }
  }
  return false;
}

/**
 * Forwards a request that arrived during shutdown to a gateway that stays up; false if there is none. `session`
 * is present if it lives in a process of this gateway: the other one takes it over.
 */
export async function handToStaying(
  gateway: HandOverDeps,
  cluster: ClusterMember,
  handed: HandedRequest,
  session: string | undefined,
): Promise<boolean> {
  gateway.handedOver.begin();
  handed.response.once("close", () => {
    gateway.handedOver.end();
  });
  for (const candidate of cluster.peers.keys()) {
    if (reachable(cluster, candidate) === undefined) continue;
    const node =
      session === undefined
        ? candidate
        : await cluster.successorOf(session, cluster.node, { isLeaving: true, candidate });
    const peer = reachable(cluster, node);
    const outcome = peer === undefined ? "unreachable" : await handTo(gateway, cluster, peer, handed, true);
    if (outcome === "lost") throw peerGone();
    if (outcome === "answered") return true;
  }
  return false;
}

function send(
  { clock }: HandOverDeps,
  cluster: ClusterMember,
  peer: RemotePeer,
  { request, body, caller }: HandedRequest,
  how: { readonly isAnswer: boolean; readonly isLeaving: boolean },
): Promise<IncomingMessage> {
  const { principal, address, authentication } = caller;
  const { credentialHeaders } = authentication;
  return sendToPeer(cluster, peer, { request, body, principal, address, credentialHeaders, ...how }, clock.wall);
}
