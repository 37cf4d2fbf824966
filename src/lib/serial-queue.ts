/** Does pieces of work one after the other, in the order in which they come. */
export type SerialQueue = (work: () => void | Promise<void>) => void;

/** Makes turns that cost nothing while no work takes its time; what fails is reported and holds nobody up. */
export function createSerialQueue(failed: (error: unknown) => void): SerialQueue {
  /** The end of what is still going on. */
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
