/** Callers that may pass per turn without a noticeable delay. */
export const perTurn = 100;

/** Says when its caller may continue: now (undefined), or in a later turn of the event loop. */
export type TurnLimiter = () => Promise<void> | undefined;

/**
 * Creates a limiter that lets a bounded number of callers pass per turn of the event loop, in order. Notifying ten
 * thousand sessions at once would hold up all other work. Needed by bench streams: "longest pause while all hear of a
 * change".
 */
export function createTurnLimiter(): TurnLimiter {
  let passed = 0;
  let waiting: (() => void)[] = [];
  let isTurning = false;

  function turn(): void {
    const next = waiting.slice(0, perTurn);
    waiting = waiting.slice(perTurn);
    passed = next.length;
    isTurning = passed > 0;
    if (isTurning) setImmediate(turn);
    for (const pass of next) pass();
  }

  return () => {
    if (!isTurning) {
      isTurning = true;
      setImmediate(turn);
    }
    if (passed < perTurn && waiting.length === 0) {
      passed += 1;
      return undefined;
    }
    return new Promise((resolve) => waiting.push(resolve));
  };
}
