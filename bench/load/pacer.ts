// Says when calls are due. A thread of its own that sleeps in the kernel, because timers of the event loop only come
// every millisecond and would send calls in bursts.
import { parentPort, workerData } from "node:worker_threads";
import { clockMs } from "./clock.ts";

/** When calls are due. */
export interface Pace {
  readonly startsAt: number;
  readonly intervalMs: number;
  readonly total: number;
}

/** Linux wakes a sleeper this much later than it asked. */
const slackMs = 0.06;

// The thread that starts this one passes exactly that.
const { startsAt, intervalMs, total } = workerData as Pace;
const sleeper = new Int32Array(new SharedArrayBuffer(4));
let due = 0;
while (due < total) {
  const count = Math.min(total, 1 + Math.floor((clockMs() - startsAt) / intervalMs));
  if (count > due) {
    due = count;
    // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a worker has no origins
    parentPort?.postMessage(due);
  }
  const wait = startsAt + due * intervalMs - clockMs() - slackMs;
  if (wait > 0) Atomics.wait(sleeper, 0, 0, wait);
}
