/** A value that may be ready now. Awaiting one that is ready would still cost a turn of the event loop. */
export type MaybePromise<T> = T | Promise<T>;

/** Whether a value is a promise, of this realm or any other. */
export function isPromise<T>(value: MaybePromise<T>): value is Promise<T> {
  return (
    value instanceof Promise ||
    (typeof value === "object" && value !== null && "then" in value && typeof value.then === "function")
  );
}

/** Applies a function to a value: at once if the value is ready, else when the promise resolves. */
export function andThen<T, Result>(
  value: MaybePromise<T>,
  apply: (value: T) => MaybePromise<Result>,
): MaybePromise<Result> {
  return isPromise(value) ? value.then(apply) : apply(value);
}
