import type { SetTimer } from "../../core/exchange.ts";

/** So many per turn delay nobody noticeably. */
const perTurn = 20;
const turnMs = 5;

/**
 * Creates a function that resolves for a few callers per turn of the event loop, in order. Work for a thousand sessions at
 * once would hold up all other streams. Needed by bench load: "longest wait of a call in a reload, 1,000 sessions".
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
