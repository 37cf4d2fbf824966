import type { SetTimer } from "../../core/exchange.ts";

/** So many at once do not hold up anybody else noticeably. */
const perTurn = 20;
const turnMs = 5;

/**
 * Makes a function that lets callers through a few at a time, in the order they came, each in a turn of its own of the
 * event loop: what is done for a thousand at once would hold up all other streams meanwhile.
 */
export function createYieldScheduler(setTimer: SetTimer): () => Promise<void> {
  let waiting: (() => void)[] = [];
  let isTurning = false;

  function turn(): void {
    const next = waiting.slice(0, perTurn);
    waiting = waiting.slice(perTurn);
    isTurning = waiting.length > 0;
    if (isTurning) setTimer(turnMs, turn);
    for (const pass of next) pass();
  }

  return () =>
    new Promise((resolve) => {
      waiting.push(resolve);
      if (isTurning) return;
      isTurning = true;
      setTimer(0, turn);
    });
}
