import * as z from "zod";

import type { Clock } from "../lib/clock.ts";
import type { Seal } from "../lib/keys/sealing.ts";
import { leaseMs } from "./store-access.ts";

/** Another gateway that is alive, as its lease says. */
export interface Peer {
  /** Its listener for peers; undefined where it has none. */
  readonly url: string | undefined;
  /** When its current lease began; 0 if it never lost one. What it owned before may have been taken over. */
  readonly since: number;
  /** Digest of its configuration; `unreadableConfig` if its lease is sealed with another key. */
  readonly config: string;
  /** Aborted when its lease ends: pending requests to it will not be answered. */
  readonly gone: AbortSignal;
}

/** The digest of a gateway whose lease cannot be read. */
export const unreadableConfig = "unknown";

/** This gateway's lease and those of the others, whatever they are stored in. */
export interface PeerList {
  readonly peers: ReadonlyMap<string, Peer>;
  /** Since when this gateway has held its lease; see `Peer`. */
  readonly since: number;
  /** The text of this gateway's lease. */
  lease(): string;
  /** The lease was written. Returns true if it had expired, so that it has to be written again. */
  wasLost(hadLease: boolean): boolean;
  /** Takes what was read: the texts of the other leases, by node. */
  read(leases: Iterable<readonly [string, string]>): void;
  /**
   * At the start, leases left behind at this gateway's address by a process that was killed, as no other can listen
   * there. Empty from then on.
   */
  leftBehind(leases: Iterable<readonly [string, string]>): readonly string[];
}

export interface PeerListDeps {
  readonly clock: Clock;
  /** Names this gateway. */
  readonly node: string;
  /** Seals leases: write access to the store must not be enough to redirect requests. */
  readonly seal: Seal;
  /** Where peers reach this gateway; undefined if they cannot. */
  readonly advertise: string | undefined;
  readonly configDigest: () => string;
}

/** Creates the list. */
export function createPeerList({ clock, node: own, seal, advertise, configDigest }: PeerListDeps): PeerList {
  let peers: ReadonlyMap<string, Peer & { readonly leave: () => void }> = new Map();
  let since = 0;
  let isKnown = false;
  let trustedFrom = Number.NEGATIVE_INFINITY;
  let isStarting = true;
  return {
    get peers() {
      return peers;
    },
    get since() {
      return since;
    },
    lease: () => seal.seal(Buffer.from(JSON.stringify([advertise ?? "", since, configDigest()])), contextOf(own)),
    wasLost: (hadLease) => {
      const isLost = isKnown && !hadLease;
      isKnown = true;
      if (!isLost) return false;
      since = clock.wall();
      // The store may have lost everything, so the others get the time of one lease to come back.
      trustedFrom = clock.now() + leaseMs;
      return true;
    },
    read: (leases) => {
      const before = peers;
      const read = new Map(clock.now() < trustedFrom ? before : []);
      for (const [node, text] of leases) {
        const [url, held, config] = openLease(seal, node, text);
        const { gone, leave } = before.get(node) ?? newPresence();
        read.set(node, { url: url === "" ? undefined : url, since: held, config, gone, leave });
      }
      peers = read;
      for (const [node, { leave }] of before) if (!read.has(node)) leave();
    },
    leftBehind: (leases) => {
      if (!isStarting || advertise === undefined) return [];
      isStarting = false;
      return [...leases].filter(([node, text]) => openLease(seal, node, text)[0] === advertise).map(([node]) => node);
    },
  };
}

const leaseForm = z.tuple([z.string(), z.number(), z.string()]);

/** The content of a lease. One that is not sealed with our key is of a gateway that is alive but gets no requests. */
function openLease(seal: Seal, node: string, text: string): z.output<typeof leaseForm> {
  const content = seal.open(text, contextOf(node));
  return content === undefined ? ["", 0, unreadableConfig] : leaseForm.parse(JSON.parse(content.toString()));
}

function contextOf(node: string): string {
  return `lease ${node}`;
}

function newPresence(): { readonly gone: AbortSignal; readonly leave: () => void } {
  const controller = new AbortController();
  return {
    gone: controller.signal,
    leave: () => {
      controller.abort();
    },
  };
}
