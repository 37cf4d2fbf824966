/** Counts operations in flight. */
export class InFlightCounter {
  count = 0;
  #waiting: (() => void)[] | undefined = undefined;

  begin(): void {
    this.count++;
  }

  end(): void {
    if (this.count === 0 || --this.count > 0 || this.#waiting === undefined) return;
    const waiting = this.#waiting;
    this.#waiting = undefined;
    for (const resume of waiting) resume();
  }

  /** Resolves when none is in flight. */
  whenIdle(): Promise<void> {
    return new Promise((resolve) => {
      if (this.count === 0) resolve();
      else (this.#waiting ??= []).push(resolve);
    });
  }
}
