/** Runs tasks one after the other, in order. */
export type SerialQueue = (work: () => void | Promise<void>) => void;

/** Creates a queue. A synchronous task runs at once if the queue is empty; errors are reported and do not stop it. */
export function createSerialQueue(failed: (error: unknown) => void): SerialQueue {
  /** The end of the last task that is still running. */
  let last: Promise<void> | undefined;
  return (work) => {
    let pending: Promise<void>;
    if (last === undefined) {
      const begun = startTask(work, failed);
      if (begun === undefined) return;
      pending = begun;
    } else {
      pending = last.then(work);
    }
    const turn = pending.catch(failed).then(() => {
      if (last === turn) last = undefined;
    });
    last = turn;
  };
}

function startTask(work: () => void | Promise<void>, failed: (error: unknown) => void): void | Promise<void> {
  try {
    return work();
  } catch (error) {
    failed(error);
    return undefined;
  }
}
