import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

/** A process of the benchmark that does one job at a time. */
export interface Worker<Job, Result> extends AsyncDisposable {
  run(job: Job): Promise<Result>;
}

/** Starts a file that takes jobs by message, and answers each with its result or `{ error }`. */
export function startWorker<Job, Result>(file: URL): Worker<Job, Result> {
  const child = spawn(process.execPath, [fileURLToPath(file)], { stdio: ["ignore", "inherit", "inherit", "ipc"] });
  const ended = Promise.withResolvers<never>();
  child.once("error", ended.reject);
  child.once("close", (code, signal) => ended.reject(new Error(`${file.pathname} ended (${signal ?? code})`)));
  ended.promise.catch(() => {});
  return {
    run: async (job) => {
      const { promise, resolve } = Promise.withResolvers<Result | { readonly error: string }>();
      child.once("message", resolve);
      child.send(job as object);
      const answer = await Promise.race([promise, ended.promise]);
      if (isFailure(answer)) throw new Error(`${file.pathname}: ${answer.error}`);
      return answer;
    },
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL");
      await ended.promise.catch(() => {});
    },
  };
}

/** Takes the jobs of such a process. */
export function serveJobs(work: (job: never) => Promise<unknown>): void {
  process.on("disconnect", () => process.exit());
  process.on("message", (job) => {
    // Its parent sends nothing else.
    work(job as never).then(
      (result) => process.send?.(result),
      (error: unknown) => process.send?.({ error: String(error) }),
    );
  });
}

function isFailure(answer: unknown): answer is { readonly error: string } {
  return typeof answer === "object" && answer !== null && "error" in answer;
}
