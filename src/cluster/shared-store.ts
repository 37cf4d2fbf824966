import * as z from "zod";

import type { Peer } from "./peer-list.ts";
import type { Clock, SetTimer } from "../lib/clock.ts";
import type { Seal } from "../lib/keys/sealing.ts";

/** Options of a store of any kind. */
export interface SharedStoreOptions {
  /** Names this process. */
  readonly node: string;
  /** Seals what only gateways may write. */
  readonly seal: Seal;
  /** Where peers reach this process; undefined if they cannot. */
  readonly advertise: string | undefined;
  /** Digest of the configuration as of now. */
  readonly configDigest: () => string;
  /** A command that takes longer has failed: calls wait for some of them. */
  readonly commandMs: number;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly events: SharedStoreEvents;
}

/** A task that runs at an upstream. */
export interface StartedTask {
  /** The gateway that started it. */
  readonly node: string;
  /** The id of the principal that it was started for. */
  readonly owner: string;
}

const taskForm = z.tuple([z.string(), z.string()]);

/**
 * A task as stores keep it: sealed, because otherwise anyone with write access to the store could give tasks to others.
 */
export function sealTask(seal: Seal, task: string, { node, owner }: StartedTask): string {
  return seal.seal(Buffer.from(JSON.stringify([node, owner])), `task ${task}`);
}

/** Opens a sealed task. One that is not sealed with our key is known but has no owner. */
export function openTask(seal: Seal, task: string, text: string): StartedTask {
  const content = seal.open(text, `task ${task}`);
  const [node, owner] = content === undefined ? ["", ""] : taskForm.parse(JSON.parse(content.toString()));
  return { node, owner };
}

/** Tokens of one rate limit that a gateway wants to give out. */
export interface WantedTokens {
  /** Names the limit and whom it is for; each at most once in a call. */
  readonly key: string;
  readonly perSecond: number;
  readonly burst: number;
  readonly count: number;
}

/** Which gateway should serve a session. */
export interface OwnerClaim {
  readonly candidate: string;
  readonly ttlMs: number;
  /** The owner as long as nobody has claimed the session. */
  readonly holder?: string | undefined;
  /** A gateway that shuts down, and gives up what it owns. */
  readonly leaving?: string | undefined;
}

/** What gateways share: who is alive, who serves a session, and which sessions have ended. Never the traffic itself. */
export interface SharedStore {
  /** Resolves when the store has answered for the first time; rejects if it cannot be reached. */
  ready(): Promise<void>;
  /** The other gateways that are alive, by node; as of a second ago. */
  readonly peers: ReadonlyMap<string, Peer>;
  /** Reads the list of gateways now. Those that cannot be read are as known before. */
  refresh(): Promise<void>;
  /** Since when this gateway has held its lease without a gap, in wall time; 0 if it never lost it. */
  readonly since: number;
  /** Notifies all gateways that a session has ended, and remembers it until the given wall time. */
  endSession(id: string, expiresAt: number): Promise<void>;
  hasEnded(ids: readonly string[]): Promise<readonly boolean[]>;
  /**
   * Makes a gateway the owner of a session, unless another that is alive and stays owns it. Returns the node that owns it
   * from now on.
   */
  claim(session: string, claim: OwnerClaim): Promise<string>;
  /** The gateways that sessions were claimed for and that are alive. */
  ownersOf(sessions: readonly string[]): Promise<readonly (string | undefined)[]>;
  /** Notes that gateways have a session in memory. */
  join(session: string, nodes: readonly string[], ttlMs: number): Promise<void>;
  /** Notes that this gateway no longer has a session in memory. Returns whether another that is alive has. */
  leave(session: string): Promise<boolean>;
  /** Takes tokens of rate limits, as many as there are up to what is wanted; returns how many for each. */
  takeTokens(wanted: readonly WantedTokens[]): Promise<readonly number[]>;
  /** Publishes who started a task, for some time. */
  noteTask(task: string, started: StartedTask, ttlMs: number): Promise<void>;
  /** Who started tasks; undefined for unknown ones. */
  findTasks(tasks: readonly string[]): Promise<readonly (StartedTask | undefined)[]>;
  close(): Promise<void>;
}

/** What a store reports. */
export interface SharedStoreEvents {
  /** Another gateway says that a session has ended. */
  sessionEnded(id: string): void;
  /** Reconnected: notices may have been missed. */
  reconnected(): void;
  /** This gateway's lease had expired and was renewed: others may have taken over what it owned. */
  leaseLost(): void;
  /** The list of peers was read. */
  peersRead(): void;
  /** The store cannot be reached, or can be again. */
  changed(isUp: boolean, reason: string): void;
}
