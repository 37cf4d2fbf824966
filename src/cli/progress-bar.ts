import type { CliIo, ServingIo } from "./io.ts";

/** Shows how far long work has come, on standard error and only where a person looks at it. */
export interface ProgressBar extends Disposable {
  readonly show: (done: number, total: number | undefined) => void;
}

const width = 30;
/** More often than this nobody sees it, and a terminal is slow. */
const intervalMs = 100;

/** Begins a bar for some work. */
export function createProgressBar(
  label: string,
  { err, isTerminal }: Pick<CliIo, "err"> & Partial<Pick<ServingIo, "isTerminal">>,
  now: () => number = () => performance.now(),
): ProgressBar {
  let [shownAt, hasShown] = [-intervalMs, false];
  return {
    show: (done, total) => {
      const isDone = done === total;
      if (isTerminal !== true || (!isDone && now() - shownAt < intervalMs)) return;
      shownAt = now();
      hasShown = true;
      err(`\r\u001B[2K${formatProgress(label, done, total)}`);
    },
    [Symbol.dispose]: () => {
      if (hasShown) err("\r\u001B[2K");
    },
  };
}

/** A bar on one line; a count where the end is not known. */
export function formatProgress(label: string, done: number, total: number | undefined): string {
  if (total === undefined || total === 0) return `${label} ${done.toLocaleString("en")}`;
  const share = Math.min(1, done / total);
  const full = Math.round(share * width);
  return `${label} [${"#".repeat(full)}${"-".repeat(width - full)}] ${Math.floor(share * 100)}%`;
}
