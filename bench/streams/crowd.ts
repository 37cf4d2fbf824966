import { startWorker } from "../worker.ts";
import type { ListenerJob, ListenerResult } from "./listeners.ts";

/** Many clients with an open stream each, in several processes. */
export interface Crowd extends AsyncDisposable {
  /** Opens sessions with a stream each, and returns the id of one of them. */
  open(url: string, count: number): Promise<string>;
  /** Resolves when every client has heard of a change, with the time of the last; ask before the change. */
  heardOfChange(): Promise<number>;
}

const processes = 4;

/** Starts the processes. */
export function startCrowd(): Crowd {
  const file = new URL("listeners.ts", import.meta.url);
  const listeners = Array.from({ length: processes }, () => startWorker<ListenerJob, ListenerResult>(file));
  const all = (job: ListenerJob): Promise<ListenerResult[]> => Promise.all(listeners.map((each) => each.run(job)));
  return {
    open: async (url, count) => {
      const [first] = await all({ kind: "open", url, count: Math.ceil(count / processes) });
      return first?.session ?? "";
    },
    heardOfChange: async () => Math.max(...(await all({ kind: "await-change" })).map(({ lastAt }) => lastAt)),
    [Symbol.asyncDispose]: async () => {
      await Promise.all(listeners.map((each) => each[Symbol.asyncDispose]()));
    },
  };
}
