// A process of many clients, each with a session and its GET stream: opens as many as it is told, and says when each of
// them has heard of a change. Several of them share the work, for a process may have only so many files open.
import { Agent } from "node:http";
import { setPriority } from "node:os";
import { openSession, openStream } from "../load/sessions.ts";
import { serveJobs } from "../worker.ts";

/** What the process is told to do. */
export type ListenerJob =
  | { readonly kind: "open"; readonly url: string; readonly count: number }
  /** Answered when every client has heard of a change since the last time this was asked. */
  | { readonly kind: "await-change" };

/** One of the sessions, and when the last client heard of the change. */
export interface ListenerResult {
  readonly session: string;
  readonly lastAt: number;
}

// Real clients are on other machines: here they take only the time that the gateway leaves.
setPriority(19);

const openersAtOnce = 32;
let session = "";
let streams = 0;
let heard = 0;
let allHeard = Promise.withResolvers<number>();

serveJobs(work);

async function work(job: ListenerJob): Promise<ListenerResult> {
  if (job.kind === "await-change") return { session, lastAt: await allHeard.promise };
  const agent = new Agent({ keepAlive: true, maxSockets: openersAtOnce });
  const target = { url: job.url, era: "legacy" } as const;
  let left = job.count;
  const opener = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      session = await openSession(target, agent);
      const stream = await openStream(target, session);
      stream.on("data", (chunk: Buffer) => {
        if (!chunk.includes("list_changed")) return;
        heard += 1;
        if (heard < streams) return;
        heard = 0;
        allHeard.resolve(performance.timeOrigin + performance.now());
        allHeard = Promise.withResolvers();
      });
      streams += 1;
    }
  };
  await Promise.all(Array.from({ length: openersAtOnce }, opener));
  agent.destroy();
  return { session, lastAt: 0 };
}
