/** Counts calls that run, and tells when none does. */
export interface RunningCalls<Key> {
  begin(key: Key): void;
  end(key: Key): void;
  /** How many run. */
  count(key: Key): number;
  /** Resolves when none runs; at once where that is so already. */
  idle(key: Key): Promise<void>;
}

interface Tally {
  count: number;
  waiting: (() => void)[] | undefined;
}

/** Makes the counter; keys without calls cost nothing. */
export function createRunningCalls<Key>(): RunningCalls<Key> {
  const tallies = new Map<Key, Tally>();
  return {
    begin: (key) => {
      const tally = tallies.get(key);
      if (tally === undefined) tallies.set(key, { count: 1, waiting: undefined });
      else tally.count++;
    },
    end: (key) => {
      const tally = tallies.get(key);
      if (tally === undefined || --tally.count > 0) return;
      tallies.delete(key);
      for (const resume of tally.waiting ?? []) resume();
    },
    count: (key) => tallies.get(key)?.count ?? 0,
    idle: (key) =>
      new Promise((resolve) => {
        const tally = tallies.get(key);
        if (tally === undefined) resolve();
        else (tally.waiting ??= []).push(resolve);
      }),
  };
}
