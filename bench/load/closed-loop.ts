import type { Target } from "./calls.ts";
import { openConnection } from "./connection.ts";
import type { Connection } from "./connection.ts";
import type { JobResult } from "./jobs.ts";

/** How much to call, and in which sessions, which take turns. */
export interface ClosedLoop {
  readonly target: Target;
  readonly sessions: readonly string[];
  readonly connections: number;
  readonly seconds: number;
  readonly requests?: number;
}

/** Calls on every connection as soon as its last answer is there, until the time or the requests are over. */
export async function runClosedLoop(loop: ClosedLoop): Promise<JobResult> {
  const { target, sessions, seconds, requests = Number.POSITIVE_INFINITY } = loop;
  const done = Promise.withResolvers<void>();
  let sent = 0;
  let answers = 0;
  let running = 0;
  let deadline = 0;
  const next = (connection: Connection): void => {
    connection.call(sessions.length === 0 ? undefined : sessions[sent % sessions.length]);
    sent += 1;
  };
  const answered = (connection: Connection): void => {
    answers += 1;
    if (sent < requests && performance.now() < deadline) {
      next(connection);
      return;
    }
    running -= 1;
    if (running === 0) done.resolve();
  };
  const connections = await Promise.all(
    Array.from({ length: loop.connections }, () => openConnection(target, answered, done.reject)),
  );
  running = connections.length;
  const start = performance.now();
  deadline = start + seconds * 1000;
  for (const connection of connections) next(connection);
  await done.promise;
  const elapsed = (performance.now() - start) / 1000;
  for (const connection of connections) connection.close();
  return { requests: answers, seconds: elapsed, latencies: [] };
}
