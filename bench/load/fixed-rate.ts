import { Worker } from "node:worker_threads";
import type { Target } from "./calls.ts";
import { clockMs } from "./clock.ts";
import { openConnection } from "./connection.ts";
import type { Connection } from "./connection.ts";
import type { JobResult } from "./jobs.ts";
import type { Pace } from "./pacer.ts";

/** How often to call, and in which sessions, which take turns. */
export interface FixedRate {
  readonly target: Target;
  readonly sessions: readonly string[];
  readonly connections: number;
  readonly rate: number;
  readonly seconds: number;
}

/** Until the pacer and the connections are there. */
const warmupMs = 500;

/**
 * Calls at times that are set beforehand and measures each call from its own time, also when it had to wait for a free
 * connection: a server that stalls is not let off the calls that it kept from being sent.
 */
export async function runFixedRate(run: FixedRate): Promise<JobResult> {
  const { target, sessions, rate } = run;
  const total = Math.round(rate * run.seconds);
  const latencies: number[] = [];
  const free: Connection[] = [];
  const intended = new Map<Connection, number>();
  const done = Promise.withResolvers<void>();
  let due = 0;
  let sent = 0;
  const pace: Pace = { startsAt: clockMs() + warmupMs, intervalMs: 1000 / rate, total };
  const send = (): void => {
    while (sent < due) {
      const connection = free.pop();
      if (connection === undefined) return;
      intended.set(connection, pace.startsAt + sent * pace.intervalMs);
      connection.call(sessions.length === 0 ? undefined : sessions[sent % sessions.length]);
      sent += 1;
    }
  };
  const answered = (connection: Connection): void => {
    latencies.push(clockMs() - (intended.get(connection) ?? Number.NaN));
    free.push(connection);
    if (latencies.length === total) done.resolve();
    else send();
  };
  free.push(
    ...(await Promise.all(
      Array.from({ length: run.connections }, () => openConnection(target, answered, done.reject)),
    )),
  );
  const connections = [...free];
  const pacer = new Worker(new URL("./pacer.ts", import.meta.url), { workerData: pace });
  pacer.on("message", (count: number) => {
    due = count;
    send();
  });
  pacer.on("error", done.reject);
  await done.promise;
  for (const connection of connections) connection.close();
  await pacer.terminate();
  return { requests: latencies.length, seconds: (clockMs() - pace.startsAt) / 1000, latencies };
}
