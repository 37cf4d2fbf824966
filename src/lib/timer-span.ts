/** The longest delay of Node's timers; longer ones fire at once. */
export const longestTimer = 2 ** 31 - 1;

/** Whether a timer can wait that many milliseconds. */
export function isTimerSpan(milliseconds: number): boolean {
  return milliseconds >= 0 && milliseconds <= longestTimer;
}
