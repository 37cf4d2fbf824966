import type { OwnerClaim, SharedStore } from "../../cluster/shared-store.ts";
import { GatewayError } from "../../errors.ts";
import { BoundedMap } from "../../lib/bounded-map.ts";
import type { SessionRegistry } from "../../sessions/registry.ts";
import type { ClusterMember } from "../context.ts";

export interface SessionOwnersDeps {
  readonly node: string;
  /** How long a session may live; a reload changes it. */
  readonly maxAgeMs: () => number;
  /** Undefined before the start. */
  readonly store: () => SharedStore | undefined;
}

/** Who serves the sessions whose servers live in one process. */
export interface SessionOwners extends Pick<ClusterMember, "ownerOf" | "successorOf"> {
  /** This gateway's lease had ended: drops the sessions that others have taken over meanwhile. */
  dropLost(registry: SessionRegistry): Promise<void>;
}

/** An owner, and the lease that it had then. */
interface KnownOwner {
  readonly node: string;
  readonly since: number;
}

const maxKnown = 100_000;
/** How many sessions are looked up in one call. */
const chunk = 500;
const retryAfter = 2;

/**
 * Creates the owners. A session belongs to the gateway that opened it for as long as that holds the lease it had then.
 * Once a lease has been lost or given up, the store decides: the first gateway to ask for the session owns it.
 */
export function createSessionOwners({ node, maxAgeMs, store }: SessionOwnersDeps): SessionOwners {
  const known = new BoundedMap<string, KnownOwner>(maxKnown);
  const sinceOf = (of: string): number | undefined =>
    of === node ? (store()?.since ?? 0) : store()?.peers.get(of)?.since;

  async function ask(id: string, claim: Omit<OwnerClaim, "ttlMs">): Promise<string> {
    const shared = store();
    try {
      if (shared === undefined) throw new GatewayError("store_failed", "the shared store is not connected");
      const owner = await shared.claim(id, { ...claim, ttlMs: maxAgeMs() });
      const since = sinceOf(owner);
      if (since !== undefined) known.set(id, { node: owner, since });
      return owner;
    } catch (error) {
      throw new GatewayError("store_failed", GatewayError.from(error).message, { details: { retryAfter } });
    }
  }

  return {
    ownerOf: ({ id, openedBy, openedAt }) => {
      const owner = known.get(id);
      if (owner !== undefined && owner.since === sinceOf(owner.node)) return owner.node;
      const held = sinceOf(openedBy);
      if (held !== undefined && held <= openedAt) return openedBy;
      return ask(id, { candidate: held === undefined ? node : openedBy });
    },
    successorOf: (id, owner, { isLeaving, candidate = node }) =>
      ask(id, { candidate, holder: owner, leaving: isLeaving ? owner : undefined }),
    dropLost: async (registry) => {
      const { ids } = registry;
      for (let start = 0; start < ids.length; start += chunk) {
        const some = ids.slice(start, start + chunk);
        const owners = (await store()?.ownersOf(some)) ?? [];
        for (const [index, id] of some.entries()) {
          const owner = owners[index];
          if (owner !== undefined && owner !== node) registry.letGo(id);
        }
      }
    },
  };
}

/**
 * Creates the owners of servers that several callers share, as of sessions that nobody has opened: the first to ask runs a
 * server as long as it lives. Servers have no age: if an owner were forgotten sooner, a second one would run the server too.
 */
export function createServerOwners(
  deps: Pick<SessionOwnersDeps, "node" | "store">,
): NonNullable<ClusterMember["serverOwner"]> {
  const { ownerOf } = createSessionOwners({ ...deps, maxAgeMs: () => Number.POSITIVE_INFINITY });
  return (server) => ownerOf({ id: `server ${server}`, openedBy: "", openedAt: 0 });
}
