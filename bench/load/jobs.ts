import type { Target } from "./calls.ts";

/** What the generator is told to do; it does one job at a time. */
export type Job =
  /** Opens sessions, with a GET stream each if asked, and keeps them until `release`. */
  | { readonly kind: "hold"; readonly target: Target; readonly sessions: number; readonly streams: boolean }
  | { readonly kind: "release" }
  /** Calls as fast as the answers come, over connections that each wait for theirs. */
  | {
      readonly kind: "closed-loop";
      readonly target: Target;
      readonly connections: number;
      /** When to stop, whichever is first. */
      readonly seconds: number;
      readonly requests?: number;
      /** Where the sessions are held; at the target unless given. */
      readonly sessionsOf?: string;
    }
  /** Calls at fixed times, whether answers come or not. */
  | {
      readonly kind: "fixed-rate";
      readonly target: Target;
      readonly connections: number;
      readonly rate: number;
      readonly seconds: number;
    }
  /** Several jobs at the same time, such as calls of several servers. */
  | { readonly kind: "together"; readonly jobs: readonly Job[] }
  /** Modern calls that the server asks something in: each is answered with the question, and waits for its retry. */
  | { readonly kind: "park"; readonly target: Target; readonly calls: number }
  /** Streamed calls one after the other, each timed from the server's first event to its arrival. */
  | { readonly kind: "first-event"; readonly target: Target; readonly calls: number };

/** What came of a job. */
export interface JobResult {
  readonly requests: number;
  readonly seconds: number;
  /** Milliseconds, in the order in which the answers came; empty for jobs that time nothing. */
  readonly latencies: readonly number[];
}
