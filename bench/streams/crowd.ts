import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { ListenerAnswer, ListenerJob } from "./listeners.ts";

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
  const listeners = Array.from({ length: processes }, startListeners);
  return {
    open: async (url, count) => {
      const job = { kind: "open", url, count: Math.ceil(count / processes) } as const;
      const answers = await Promise.all(listeners.map(({ ask }) => ask(job)));
      return answers.map((answer) => ("session" in answer ? answer.session : ""))[0] ?? "";
    },
    heardOfChange: async () => {
      const answers = await Promise.all(listeners.map(({ ask }) => ask({ kind: "await-change" })));
      return Math.max(...answers.map((answer) => ("lastAt" in answer ? answer.lastAt : Number.NaN)));
    },
    [Symbol.asyncDispose]: async () => {
      await Promise.all(listeners.map(({ end }) => end()));
    },
  };
}

function startListeners() {
  const child = spawn(process.execPath, [fileURLToPath(new URL("listeners.ts", import.meta.url))], {
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const ended = Promise.withResolvers<never>();
  child.once("error", ended.reject);
  child.once("close", (code, signal) => ended.reject(new Error(`the clients ended (${signal ?? code})`)));
  ended.promise.catch(() => {});
  return {
    ask: async (job: ListenerJob): Promise<ListenerAnswer> => {
      const { promise, resolve } = Promise.withResolvers<ListenerAnswer>();
      child.once("message", resolve);
      child.send(job);
      const answer = await Promise.race([promise, ended.promise]);
      if ("error" in answer) throw new Error(`the clients could not ${job.kind}: ${answer.error}`);
      return answer;
    },
    end: async (): Promise<void> => {
      child.kill("SIGKILL");
      await ended.promise.catch(() => {});
    },
  };
}
