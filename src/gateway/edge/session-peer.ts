import { GatewayError } from "../../errors.ts";
import { decodeLabel } from "../../protocol/ids/label.ts";
import type { ClusterMember } from "../context.ts";

/** What a request wants of its session: to carry a message, to open a stream, or to end it. */
export type SessionUse = "message" | "stream" | "end";

/** A request for a session, as far as it tells who serves it. */
export interface SessionRequest {
  readonly use: SessionUse;
  readonly session: { readonly id: string; readonly openedBy: string | undefined };
  /** Whether the session lives in one process. */
  readonly holdsSessions: boolean;
  readonly lastEventId: string | undefined;
}

/**
 * The URL of the gateway that has to serve a request; undefined if any can. A session that lives in one process is served
 * by its owner. Else only streams need a certain gateway: a resumed one the gateway that sent its events, a new one the
 * gateway that opened the session and reads the upstream's stream.
 */
export async function peerFor(cluster: ClusterMember, request: SessionRequest): Promise<string | undefined> {
  const { use, session, holdsSessions, lastEventId } = request;
  const { id, openedBy = cluster.node } = session;
  if (holdsSessions) {
    const owner = await cluster.ownerOf({ id, openedBy });
    return owner === cluster.node ? undefined : (cluster.peers.get(owner) ?? notYet());
  }
  if (use !== "stream") return undefined;
  const label = lastEventId === undefined ? undefined : decodeLabel(lastEventId);
  const sender = label?.ok === true ? label.parts.node : openedBy;
  return sender === cluster.node ? undefined : (cluster.peers.get(sender) ?? cluster.peers.get(openedBy));
}

/** The owner has just taken the session, and its lease has not been read yet. */
function notYet(): never {
  throw peerGone();
}

/** The error while the gateway that serves a session cannot be reached, and its lease has not ended. */
export function peerGone(): GatewayError {
  return new GatewayError("store_failed", "the gateway that serves this session cannot be reached; try again soon", {
    details: { retryAfter: 2 },
  });
}
