import { AsyncLocalStorage } from "node:async_hooks";

/** Runs work of one name one after the other; work of different names runs at the same time. */
export type Turns = <Result>(name: string, work: () => Promise<Result>) => Promise<Result>;

/**
 * Creates turns, for changes that have lost against another writer once: repeated all at once, they would lose against
 * each other until one after the other gives up. Work that runs inside of other work never waits, so that two of them
 * cannot wait for each other.
 */
export function createTurns(): Turns {
  const last = new Map<string, Promise<unknown>>();
  const inside = new AsyncLocalStorage<true>();
  return async (name, work) => {
    if (inside.getStore() === true) return work();
    const run = async (): ReturnType<typeof work> => inside.run(true, work);
    const done = (last.get(name) ?? Promise.resolve()).then(run, run);
    last.set(name, done);
    try {
      return await done;
    } finally {
      if (last.get(name) === done) last.delete(name);
    }
  };
}
