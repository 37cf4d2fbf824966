import type { SetTimer } from "../../core/exchange.ts";
import type { TurnLimiter } from "../../lib/turn-limiter.ts";
import type { MaybePromise } from "../../lib/is-promise.ts";
import type { CatalogueEntry } from "./catalogue-entries.ts";
import { type ListFacts, listsOfCapability } from "../names/list-facts.ts";

/** How long changes of several members are collected. */
const gatherMs = 250;

export interface ChangeNoticesDeps {
  readonly setTimer: SetTimer;
  /** All clients are notified of a change at the same time, so they take turns. */
  readonly turn: TurnLimiter;
  /** Reads a whole list as the client would, before policy. */
  readonly read: (facts: ListFacts) => Promise<readonly CatalogueEntry[]>;
  /** Whether the client may see one of these entries. */
  readonly isVisible: (facts: ListFacts, entries: readonly CatalogueEntry[]) => MaybePromise<boolean>;
  /** Tells the client that a list has changed. */
  readonly tell: (capability: string) => void;
}

/** Tells a client about changed lists: once for changes at the same time, and only if what it can see has changed. */
export class ChangeNotices {
  readonly #deps: ChangeNoticesDeps;
  /** What the client knows, by method. */
  readonly #known = new Map<string, readonly CatalogueEntry[]>();
  readonly #gathering = new Map<string, () => void>();
  #isClosed = false;
  /** Counts changes, so that a list that was read meanwhile is not taken for the one before. */
  #changes = 0;

  constructor(deps: ChangeNoticesDeps) {
    this.#deps = deps;
  }

  /** The client has read a whole list, or only a part of one. */
  listed({ method }: ListFacts, entries: readonly CatalogueEntry[] | undefined): void {
    if (entries === undefined) this.#known.delete(method);
    else this.#known.set(method, entries);
  }

  /** The client, or another one of the same caller, has read a list: what this one knows is certain only if both agree. */
  listedBySomebody({ method }: ListFacts, entries: readonly CatalogueEntry[] | undefined): void {
    const known = this.#known.get(method);
    if (known === undefined) return;
    if (entries === undefined || differencesOf(known, entries).length > 0) this.#known.delete(method);
  }

  /** Takes the lists of a capability as they are now for those that the client knows. */
  async remember(capability: string): Promise<void> {
    const before = this.#changes;
    await Promise.allSettled(
      listsOfCapability(capability).map(async (facts) => {
        const entries = await this.#deps.read(facts);
        if (before === this.#changes) this.#known.set(facts.method, entries);
      }),
    );
  }

  /** The list of a member has changed, or the member has come or gone. */
  changed(capability: string): void {
    this.#changes++;
    if (this.#gathering.has(capability)) return;
    const stop = this.#deps.setTimer(gatherMs, () => {
      this.#gathering.delete(capability);
      void this.#check(capability);
    });
    this.#gathering.set(capability, stop);
  }

  close(): void {
    this.#isClosed = true;
    for (const stop of this.#gathering.values()) stop();
    this.#gathering.clear();
  }

  async #check(capability: string): Promise<void> {
    await this.#deps.turn();
    if (this.#isClosed) return;
    const known = listsOfCapability(capability).filter(({ method }) => this.#known.has(method));
    const changed = await Promise.all(known.map((facts) => this.#hasChanged(facts)));
    // The lists of a client that has not read them here are unknown.
    if (known.length === 0 || changed.includes(true)) this.#deps.tell(capability);
  }

  async #hasChanged(facts: ListFacts): Promise<boolean> {
    const before = this.#known.get(facts.method) ?? [];
    try {
      const now = await this.#deps.read(facts);
      this.#known.set(facts.method, now);
      const differences = differencesOf(before, now);
      return differences.length > 0 && (await this.#deps.isVisible(facts, differences));
    } catch {
      // A list that cannot be read counts as changed.
      this.#known.delete(facts.method);
      return true;
    }
  }
}

/** The entries that only one of two lists has; all of them where only the order differs. */
function differencesOf(before: readonly CatalogueEntry[], now: readonly CatalogueEntry[]): readonly CatalogueEntry[] {
  if (before.length === now.length && before.every(({ json }, index) => json === now[index]?.json)) return [];
  const [old, current] = [before, now].map((entries) => new Set(entries.map(({ json }) => json)));
  const differing = [
    ...before.filter(({ json }) => current?.has(json) !== true),
    ...now.filter(({ json }) => old?.has(json) !== true),
  ];
  return differing.length > 0 ? differing : now;
}
