/** Beyond this Node's timers fire at once instead of late. */
const longestTimer = 2 ** 31 - 1;

/** Whether a timer can wait for so many milliseconds. */
export function isTimerSpan(milliseconds: number): boolean {
  return milliseconds >= 0 && milliseconds <= longestTimer;
}
