// The process that makes the load, apart from everything that is measured. It takes jobs from its parent.
import { firstId } from "./calls.ts";
import { runClosedLoop } from "./closed-loop.ts";
import { runFixedRate } from "./fixed-rate.ts";
import type { Job, JobResult } from "./jobs.ts";
import { holdSessions, parkCalls, timeFirstEvent } from "./sessions.ts";
import type { HeldSessions } from "./sessions.ts";

/** By URL, each time `hold` was asked for. */
const held = new Map<string, HeldSessions[]>();

process.on("disconnect", () => process.exit());

process.on("message", (job: Job) => {
  work(job).then(
    (result) => process.send?.({ result }),
    (error: unknown) => process.send?.({ error: String(error) }),
  );
});

async function work(job: Job): Promise<JobResult> {
  const start = performance.now();
  if (job.kind === "release") {
    for (const sessions of [...held.values()].flat()) sessions.release();
    held.clear();
    return resultOf(start, 0, []);
  }
  if (job.kind === "together") {
    const results = await Promise.all(job.jobs.map((one) => work(one)));
    const requests = results.reduce((sum, result) => sum + result.requests, 0);
    return { requests, seconds: Math.max(...results.map((result) => result.seconds)), latencies: [] };
  }
  const { url } = job.target;
  if (job.kind === "hold") {
    const sessions = await holdSessions(job.target, job.sessions, job.streams);
    held.set(url, [...(held.get(url) ?? []), sessions]);
    return resultOf(start, job.sessions, []);
  }
  const opened = held.get(job.kind === "closed-loop" ? (job.sessionsOf ?? url) : url) ?? [];
  const sessions = job.target.era === "legacy" ? opened.flatMap(({ ids }) => ids) : [];
  if (job.kind === "park") {
    await parkCalls(job.target, job.calls);
    return resultOf(start, job.calls, []);
  }
  if (job.kind === "closed-loop") return runClosedLoop({ ...job, sessions });
  if (job.kind === "fixed-rate") return runFixedRate({ ...job, sessions });
  const latencies: number[] = [];
  for (let call = 0; call < job.calls; call += 1) {
    latencies.push(await timeFirstEvent(job.target, sessions[0], firstId + call));
  }
  return resultOf(start, job.calls, latencies);
}

function resultOf(start: number, requests: number, latencies: readonly number[]): JobResult {
  return { requests, seconds: (performance.now() - start) / 1000, latencies };
}
