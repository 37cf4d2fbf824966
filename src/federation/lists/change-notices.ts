import { createHash } from "node:crypto";

import type { SetTimer } from "../../core/exchange.ts";
import type { Turnstile } from "../../lib/turnstile.ts";
import type { FilledPage } from "./list-filler.ts";
import { type ListFacts, listOfCapability } from "../names/list-facts.ts";

/** How long changes of several members are gathered. */
const gatherMs = 250;

export interface ChangeNoticesDeps {
  readonly setTimer: SetTimer;
  /** All clients hear of a change at the same time, and take turns. */
  readonly turn: Turnstile;
  /** Reads a whole list as the client would. */
  readonly read: (facts: ListFacts) => Promise<FilledPage["entries"]>;
  /** Tells the client that a list has changed. */
  readonly tell: (capability: string) => void;
}

/** Tells a client about changed lists: once for changes at the same time, and only if what it can read has changed. */
export class ChangeNotices {
  readonly #deps: ChangeNoticesDeps;
  /** What the client last read, by method. */
  readonly #digests = new Map<string, string>();
  readonly #gathering = new Map<string, () => void>();
  #isClosed = false;

  constructor(deps: ChangeNoticesDeps) {
    this.#deps = deps;
  }

  /** The client has read a whole list. */
  listed({ method }: ListFacts, entries: FilledPage["entries"]): void {
    this.#digests.set(method, digestOf(entries));
  }

  /** A member says that its list has changed, or has come or gone. */
  changed(capability: string): void {
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
    const facts = listOfCapability(capability);
    const before = facts === undefined ? undefined : this.#digests.get(facts.method);
    // Templates change with resources and are not compared.
    if (facts === undefined || before === undefined || capability === "resources") {
      this.#deps.tell(capability);
      return;
    }
    try {
      const now = digestOf(await this.#deps.read(facts));
      if (now === before) return;
      this.#digests.set(facts.method, now);
    } catch {
      // A list that cannot be read has changed for its reader.
    }
    this.#deps.tell(capability);
  }
}

function digestOf(entries: FilledPage["entries"]): string {
  const hash = createHash("sha256");
  for (const { json } of entries) hash.update(json).update("\n");
  return hash.digest("base64url");
}
