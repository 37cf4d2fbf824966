import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Bytes that are in use when everything has gone that can go. */
export async function heapInUse(): Promise<number> {
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  if (typeof collect !== "function") throw new Error("this process has no gc()");
  for (let round = 0; round < 3; round++) {
    collect();
    // Finalizers and streams that are done need a turn each to let go of what they hold.
    await new Promise((resolve) => {
      setImmediate(resolve);
    });
  }
  return process.memoryUsage().heapUsed;
}
