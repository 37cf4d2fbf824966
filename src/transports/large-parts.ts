import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Smaller parts are not counted: what calls of usual size leave on the heap makes V8 collect by itself. */
const smallestPart = 16 * 1024;
/**
 * So much in large parts is worth a collection. Each byte is in two to four buffers on its way, and where messages come
 * slowly, V8 walks the whole heap after 20 MB of them.
 */
const collectEvery = 2 << 20;

/** Creates the function that counts parts of messages, and has the buffers collected after every 2 MB of large ones. */
export function createPartCounter(collect: () => void): (bytes: number) => void {
  let counted = 0;
  return (bytes) => {
    if (bytes < smallestPart) return;
    counted += bytes;
    if (counted < collectEvery) return;
    counted = 0;
    collect();
  };
}

let collector: ((options: { readonly type: "minor" }) => void) | undefined;

function collectYoung(): void {
  collector ??= exposeCollector();
  collector({ type: "minor" });
}

/** Node has no other way to ask for a collection of the young generation alone. */
function exposeCollector(): NonNullable<typeof collector> {
  setFlagsFromString("--expose-gc");
  const exposed: unknown = runInNewContext("gc");
  setFlagsFromString("--no-expose-gc");
  // V8 promises nothing about it, and without it everything works, only slower.
  return typeof exposed === "function" ? (exposed as NonNullable<typeof collector>) : () => {};
}

/**
 * Counts a whole body or a part of a stream that was received. Buffers are memory outside of the heap: where large messages leave no
 * garbage on it, V8 collects nothing until they take many megabytes, and then walks the whole heap. Collecting the young
 * generation in time takes a tenth of that. Needed by bench big: "64 KB events", "1 MB arguments" and "1 MB results".
 */
export const notePart = createPartCounter(collectYoung);
