import type { Clock, Exchange } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { GatewayError } from "../../errors.ts";
import { memberInteger, memberString } from "../../protocol/json/read.ts";
import type { CatalogueEntry, EntryReader } from "./catalogue-entries.ts";
import type { ListFacts, ListMethod } from "../names/list-facts.ts";

/** One page of a member's list. */
export interface CataloguePage {
  readonly entries: readonly CatalogueEntry[];
  /** The member's cursor of the next page; undefined after the last one. */
  readonly next: string | undefined;
  /** How long the server said that it may be cached. */
  readonly ttlMs: number;
  /** Whether the server said that it is the same for everybody. */
  readonly isPublic: boolean;
  /** Monotonic milliseconds. */
  readonly readAt: number;
}

/** The outcome of asking a member for a page. */
export type PageOutcome =
  | { readonly type: "page"; readonly page: CataloguePage }
  /** The member does not have such lists. */
  | { readonly type: "absent" }
  | { readonly type: "bad-cursor" }
  | { readonly type: "failed"; readonly reason: string };

/** A page that is being read. */
export interface PageReading {
  /** Never rejects. */
  readonly outcome: Promise<PageOutcome>;
  /** When it was asked, in monotonic milliseconds; perhaps for another list. */
  readonly since: number;
}

/** How long a page may be used without asking again. */
export type Freshness = (facts: ListFacts, ttlMs: number) => number;

export interface CatalogueDeps {
  readonly clock: Clock;
  readonly reader: EntryReader;
  /** Sends a request of the federation to the member, on behalf of an exchange. */
  readonly ask: (exchange: Exchange, method: ListMethod, cursor: string | undefined) => Promise<Reply>;
  readonly freshness: Freshness;
}

interface KnownPage {
  readonly outcome: PageOutcome & { readonly type: "page" | "absent" };
  readonly readAt: number;
  readonly freshUntil: number;
}

/** How many pages one caller's catalogue keeps of a member. */
const maxPages = 1000;

/** What a member has listed to one caller. Callers that ask at the same time share a request. */
export class Catalogue {
  readonly #deps: CatalogueDeps;
  readonly #pages = new Map<string, KnownPage>();
  readonly #reading = new Map<string, PageReading>();
  /** Counts up with every change, so that a page that was asked for before is not kept. */
  #version = 0;

  constructor(deps: CatalogueDeps) {
    this.#deps = deps;
  }

  /** Increases with each change that a server reports, or that may have happened while it was unreachable. */
  get version(): number {
    return this.#version;
  }

  /** Reads a page, from memory if it is fresh. */
  read(exchange: Exchange, facts: ListFacts, cursor: string | undefined): PageReading {
    const key = keyOf(facts, cursor);
    const known = this.#pages.get(key);
    const now = this.#deps.clock.now();
    if (known !== undefined && now < known.freshUntil) return { outcome: Promise.resolve(known.outcome), since: now };
    let reading = this.#reading.get(key);
    if (reading === undefined) {
      const outcome = this.#fetch(exchange, facts, cursor).finally(() => {
        this.#reading.delete(key);
      });
      reading = { outcome, since: now };
      this.#reading.set(key, reading);
    }
    return reading;
  }

  /** A page that was read before and is not older than this, fresh or not. */
  recall(facts: ListFacts, cursor: string | undefined, maxAgeMs: number): PageOutcome | undefined {
    const known = this.#pages.get(keyOf(facts, cursor));
    return known !== undefined && this.#deps.clock.now() - known.readAt <= maxAgeMs ? known.outcome : undefined;
  }

  /** The lists of a capability have changed: pages are read again, and the old ones are only a fallback. */
  expire(capability?: string): void {
    this.#version++;
    for (const [key, known] of this.#pages) {
      if (capability === undefined || key.startsWith(`${capability}/`))
        this.#pages.set(key, { ...known, freshUntil: 0 });
    }
  }

  /** Forgets everything, because entries may have other names from now on. */
  forget(): void {
    this.#version++;
    this.#pages.clear();
  }

  async #fetch(exchange: Exchange, facts: ListFacts, cursor: string | undefined): Promise<PageOutcome> {
    const version = this.#version;
    const outcome = await this.#ask(exchange, facts, cursor);
    if (outcome.type !== "page" && outcome.type !== "absent") return outcome;
    const readAt = this.#deps.clock.now();
    const ttlMs = outcome.type === "page" ? outcome.page.ttlMs : 0;
    const freshMs = version === this.#version ? this.#deps.freshness(facts, ttlMs) : 0;
    this.#pages.set(keyOf(facts, cursor), { outcome, readAt, freshUntil: readAt + freshMs });
    const [oldest] = this.#pages.keys();
    if (this.#pages.size > maxPages && oldest !== undefined) this.#pages.delete(oldest);
    return outcome;
  }

  async #ask(exchange: Exchange, facts: ListFacts, cursor: string | undefined): Promise<PageOutcome> {
    let reply: Reply;
    try {
      reply = await this.#deps.ask(exchange, facts.method, cursor);
    } catch (error) {
      return { type: "failed", reason: GatewayError.from(error).message };
    }
    const { message } = reply;
    if (message?.kind === "result") {
      const page: CataloguePage = {
        entries: this.#deps.reader.read(facts, message),
        next: memberString(message, "result.nextCursor"),
        ttlMs: memberInteger(message, "result.ttlMs") ?? 0,
        isPublic: memberString(message, "result.cacheScope") === "public",
        readAt: this.#deps.clock.now(),
      };
      return { type: "page", page };
    }
    if (message?.kind !== "error") return { type: "failed", reason: "the server gave no answer" };
    const code = memberInteger(message, "error.code");
    // A server without such lists is healthy.
    if (code === -32601) return { type: "absent" };
    if (code === -32602 && cursor !== undefined) return { type: "bad-cursor" };
    // Without the server's own message: the reason is shown to clients, and the message may contain internal names.
    return { type: "failed", reason: `the server answered error ${code}` };
  }
}

function keyOf({ method, capability }: ListFacts, cursor: string | undefined): string {
  return `${capability}/${method} ${cursor === undefined ? "" : `:${cursor}`}`;
}
