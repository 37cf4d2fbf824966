import type { Clock, SetTimer } from "../../core/exchange.ts";
import { type Link, LinkList } from "./link-list.ts";

/** What a wheel needs from outside. */
export interface WheelOptions<Item> {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /**
   * Asked when an item's time may have come: the later moment at which to ask again, or undefined when the item is
   * done with. Deadlines may thus move without the wheel being told.
   */
  readonly due: (item: Item, now: number) => number | undefined;
}

const tickMs = 100;
const slotCount = 512;

/**
 * Calls items at their deadlines, at most a tick late and never early, with one timer for all of them that runs only
 * while something is filed. A deadline beyond the wheel's span is asked about once a round.
 */
export class DeadlineWheel<Item> {
  readonly #options: WheelOptions<Item>;
  readonly #slots: readonly LinkList<Item>[] = Array.from({ length: slotCount }, () => new LinkList<Item>());
  #filed = 0;
  /** The last tick that has been worked through. */
  #tick = 0;
  #stopTimer: (() => void) | undefined;
  #isStopped = false;

  constructor(options: WheelOptions<Item>) {
    this.#options = options;
  }

  /** How many items have a deadline. */
  get size(): number {
    return this.#filed;
  }

  /** Files a link that is in no list under its deadline. */
  file(link: Link<Item>, deadline: number, now: number): void {
    if (this.#filed === 0) this.#tick = Math.floor(now / tickMs);
    this.#filed++;
    this.#place(link, deadline);
    this.#start();
  }

  /** Takes a link out, if it is filed. */
  drop(link: Link<Item>): void {
    if (link.list === undefined) return;
    link.leave();
    this.#filed--;
  }

  /** Stops the timer for good. */
  stop(): void {
    this.#isStopped = true;
    this.#stopTimer?.();
    this.#stopTimer = undefined;
  }

  #start(): void {
    if (this.#stopTimer !== undefined || this.#isStopped) return;
    this.#stopTimer = this.#options.setTimer(tickMs, () => {
      this.#stopTimer = undefined;
      this.#turn();
      if (this.#filed > 0) this.#start();
    });
  }

  #turn(): void {
    const now = this.#options.clock.now();
    const target = Math.floor(now / tickMs);
    // After a long sleep one round visits everything there is.
    const first = Math.max(this.#tick + 1, target - slotCount + 1);
    for (let tick = first; tick <= target; tick++) {
      this.#tick = tick;
      this.#visit(tick, now);
    }
  }

  #visit(tick: number, now: number): void {
    const slot = this.#slots[tick % slotCount];
    // What is filed again behind the last one of now belongs to a later round.
    for (let left = slot?.size ?? 0; left > 0; left--) {
      const link = slot?.first;
      if (link === undefined) return;
      link.leave();
      const again = this.#options.due(link.item, now);
      if (again === undefined) this.#filed--;
      else this.#place(link, again);
    }
  }

  #place(link: Link<Item>, deadline: number): void {
    const wanted = Math.ceil(deadline / tickMs);
    const tick = Math.min(Math.max(wanted, this.#tick + 1), this.#tick + slotCount - 1);
    this.#slots[tick % slotCount]?.append(link);
  }
}
