import type { Clock, SetTimer } from "../lib/clock.ts";

/** What a store is opened with, whatever it runs on. */
export interface SharedStoreOptions {
  /** Names this process. */
  readonly node: string;
  /** Where peers reach this process; undefined if they cannot. */
  readonly advertise: string | undefined;
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

/** What gateways share: who is alive, who serves a session, and which sessions have ended. Never the traffic itself. */
export interface SharedStore {
  /** Resolves when the store has answered for the first time; rejects if it cannot be reached. */
  ready(): Promise<void>;
  /** The other gateways that are alive, by node, with the URLs of their peer listeners; as of a second ago. */
  readonly peers: ReadonlyMap<string, string>;
  /** Tells all gateways that a session has ended, and remembers it until the given wall time. */
  endSession(id: string, expiresAt: number): Promise<void>;
  hasEnded(ids: readonly string[]): Promise<readonly boolean[]>;
  /**
   * Takes the place of a gateway that has ended as the owner of a session. Returns the node that owns it from now on: this
   * one, or another that was faster.
   */
  claim(session: string, ttlMs: number): Promise<string>;
  /** Tells all gateways who started a task, for some time. */
  noteTask(task: string, started: StartedTask, ttlMs: number): Promise<void>;
  /** Who started tasks; undefined for those that nobody noted. */
  findTasks(tasks: readonly string[]): Promise<readonly (StartedTask | undefined)[]>;
  close(): Promise<void>;
}

/** What a store reports. */
export interface SharedStoreEvents {
  /** Another gateway says that a session has ended. */
  sessionEnded(id: string): void;
  /** The connection is back: notices may have been missed. */
  reconnected(): void;
  /** The store cannot be reached, or can be again. */
  changed(isUp: boolean, reason: string): void;
}
