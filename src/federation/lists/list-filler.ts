import type { Clock, Exchange, SetTimer } from "../../core/exchange.ts";
import { GatewayError } from "../../errors.ts";
import type { AdvertisedNames } from "../names/advertised-names.ts";
import type { Catalogue, PageOutcome, PageReading } from "./catalogue.ts";
import type { CatalogueEntry } from "./catalogue-entries.ts";
import type { ListPlace } from "./list-cursor.ts";
import type { ListFacts } from "../names/list-facts.ts";
import type { FederationOptions, ListingOptions, MemberOptions } from "../names/member-options.ts";
import type { UriOwners } from "../names/uri-owners.ts";

/** A member that a list lacks, or whose earlier list it shows. */
export interface Degraded {
  readonly upstream: string;
  readonly reason: string;
  /** Since when lists of this caller have lacked it (ISO 8601). */
  readonly since: string;
  /** Whether its last list is shown instead. */
  readonly stale: boolean;
}

/** A page of a federation's list. */
export interface FilledPage {
  readonly entries: readonly CatalogueEntry[];
  readonly next: ListPlace | undefined;
  readonly degraded: readonly Degraded[];
  /** Members that were asked and failed. */
  readonly failed: ReadonlySet<string>;
  /** Names that several servers have, so that none of them is offered. */
  readonly clashes: ReadonlySet<string>;
  /** How long all parts may be cached, and whether they are the same for everybody. */
  readonly ttlMs: number;
  readonly isPublic: boolean;
}

export interface ListFillerDeps {
  readonly clock: Clock;
  readonly options: Pick<FederationOptions, "members" | "listing">;
  readonly names: AdvertisedNames;
  readonly uris: Pick<UriOwners, "isShadowed" | "learn" | "learnTemplate">;
  readonly setTimer: SetTimer;
  /** Selects the names of a list that the caller of an exchange gets. */
  readonly shownTo: (exchange: Exchange, facts: ListFacts) => (name: string) => boolean;
  /** What a member has listed to the caller of an exchange. */
  readonly catalogueOf: (member: MemberOptions, exchange: Exchange) => Catalogue;
}

/** Pages of one member that are read for one page of ours: empty ones must not delay a request forever. */
const maxPagesPerFill = 100;
/** Pages of one member in total, for servers whose cursors never end. */
const maxPages = 1000;
/** Clients carry a member's cursor inside ours, and the pages that are kept have it as their key. */
const maxCursorLength = 16_384;
/** How long a list that lacks a member may be cached. */
const degradedTtlMs = 5000;
/** How often the lists of a member are read to look up unknown names, which a caller can make up. */
const lookUpEveryMs = 5000;

/** The reading of a list in which a name was looked up. */
interface LookUp {
  readonly reading: Promise<void>;
  /** The catalogue's, to notice changes. */
  readonly version: number;
  /** Monotonic milliseconds until which it is not read again. */
  readonly until: number;
}

/** A list that is being filled. */
interface Filling {
  readonly exchange: Exchange;
  readonly facts: ListFacts;
  readonly entries: CatalogueEntry[];
  readonly degraded: Degraded[];
  readonly failed: Set<string>;
  readonly clashes: Set<string>;
  /** Members that answered with a list, and those that do not have such lists. */
  readonly answered: Set<string>;
  absent: number;
  /** First pages that were requested in parallel, so that several slow members take the time of one. */
  readonly firstPages: Map<string, PageReading>;
  ttlMs: number;
  isPublic: boolean;
}

/**
 * Puts the lists of members together: members in configured order, entries in theirs, so that lists are stable and prompt
 * caches stay warm.
 */
export class ListFiller {
  readonly #deps: ListFillerDeps;
  /** The last look-up in each list, by what the caller's catalogue has. */
  readonly #lookUps = new WeakMap<Catalogue, Map<string, LookUp>>();
  /** Since when lists have lacked a member. */
  readonly #missingSince = new WeakMap<Catalogue, string>();

  constructor(deps: ListFillerDeps) {
    this.#deps = deps;
  }

  // Read with each use: a reload may change them.
  get #members(): readonly MemberOptions[] {
    return this.#deps.options.members;
  }

  get #listing(): ListingOptions {
    return this.#deps.options.listing;
  }

  /** One page, starting at a position. Throws if no member answers, or a required one does not. */
  async fill(exchange: Exchange, facts: ListFacts, place: ListPlace | undefined): Promise<FilledPage> {
    const filling: Filling = {
      exchange,
      facts,
      entries: [],
      degraded: [],
      failed: new Set(),
      clashes: new Set(),
      answered: new Set(),
      absent: 0,
      firstPages: new Map(),
      ttlMs: Number.MAX_SAFE_INTEGER,
      isPublic: true,
    };
    let next: ListPlace | undefined = this.#placeIn(place);
    if (next.cursor === undefined) this.#askFirstPages(filling, next.index);
    if (place === undefined) await this.#firstAnswer(filling);
    if (facts.named !== undefined) await this.#readAll(exchange, facts, this.#deps.names.unlisted(facts.named));
    for (let index = next.index; index < this.#members.length; index++) {
      if (next === undefined) this.#askFirstPages(filling, index);
      next = await this.#takeFrom(filling, next ?? this.#startOf(index));
      if (next !== undefined) break;
      if (index + 1 < this.#members.length && filling.entries.length >= this.#listing.page) {
        next = this.#startOf(index + 1);
        break;
      }
    }
    this.#noteComplete(filling);
    this.#checkMissing(filling, place === undefined);
    const { entries, degraded, failed, clashes, ttlMs, isPublic } = filling;
    const cacheMs = degraded.length === 0 ? ttlMs : Math.min(ttlMs, degradedTtlMs);
    const usableMs = cacheMs === Number.MAX_SAFE_INTEGER ? 0 : cacheMs;
    return { entries, next, degraded, failed, clashes, ttlMs: usableMs, isPublic };
  }

  /**
   * Asks members from a place on for their first pages, unless they were asked before: as many as this page has room for,
   * as far as their last lists tell.
   */
  #askFirstPages({ exchange, facts, firstPages, entries }: Filling, from: number): void {
    if (firstPages.has(this.#members[from]?.name ?? "")) return;
    let room = this.#listing.page - entries.length;
    for (const member of this.#members.slice(from)) {
      if (room <= 0) return;
      const catalogue = this.#deps.catalogueOf(member, exchange);
      const last = catalogue.recall(facts, undefined, Number.POSITIVE_INFINITY);
      firstPages.set(member.name, catalogue.read(exchange, facts, undefined));
      room -= last?.type === "page" ? last.page.entries.length : 0;
    }
  }

  /**
   * If no earlier list is cached, waits until one member has answered or all have failed: while the processes of all
   * servers are starting, `wait` would run out and only leave an error to return.
   */
  async #firstAnswer({ exchange, facts, firstPages }: Filling): Promise<void> {
    const catalogues = this.#members.map((member) => this.#deps.catalogueOf(member, exchange));
    if (catalogues.some((catalogue) => catalogue.recall(facts, undefined, this.#listing.stale) !== undefined)) return;
    const answers = [...firstPages.values()].map(async ({ outcome }) => {
      if ((await outcome).type !== "page") throw new Error("no list");
    });
    await Promise.any(answers).catch(() => {});
  }

  /** A page as the member has it now, or what is remembered of it if that takes too long. */
  async #readPage(filling: Filling, member: MemberOptions, cursor: string | undefined): Promise<PageOutcome> {
    const { exchange, facts } = filling;
    const catalogue = this.#deps.catalogueOf(member, exchange);
    const first = cursor === undefined ? filling.firstPages.get(member.name) : undefined;
    const outcome = await this.#inTime(first ?? catalogue.read(exchange, facts, cursor));
    this.#learnUris(member, facts, outcome);
    if (outcome.type !== "failed") return outcome;
    filling.failed.add(member.name);
    const known = catalogue.recall(facts, cursor, this.#listing.stale);
    this.#note(filling, member, outcome.reason, known !== undefined);
    return known ?? outcome;
  }

  /** Remembers the owner of each URI of a page, also of a cached one: a change may have been reported since. */
  #learnUris({ name: member, uris }: MemberOptions, { key }: ListFacts, outcome: PageOutcome): void {
    // A prefix already names the owner of a URI.
    if (outcome.type !== "page" || uris === "prefix") return;
    const { entries } = outcome.page;
    if (key === "uri") for (const { name } of entries) this.#deps.uris.learn(member, name);
    if (key === "uriTemplate") for (const { name } of entries) this.#deps.uris.learnTemplate(member, name);
  }

  /** The outcome of a read. A hanging server delays only one list, not every list that asks meanwhile. */
  #inTime({ outcome, since }: PageReading): Promise<PageOutcome> {
    return new Promise((resolve) => {
      const stop = this.#deps.setTimer(Math.max(0, since + this.#listing.wait - this.#deps.clock.now()), () => {
        resolve({ type: "failed", reason: "the server did not answer in time" });
      });
      void outcome.then((known) => {
        stop();
        resolve(known);
      });
    });
  }

  #shown(filling: Filling, member: MemberOptions, entries: readonly CatalogueEntry[]): CatalogueEntry[] {
    const { exchange, facts } = filling;
    const { named } = facts;
    const isShown = this.#deps.shownTo(exchange, facts);
    // A URI is read at the first member that lists it, so only its entry is offered, and rules about the URI apply to
    // no other.
    if (facts.capability === "resources")
      return entries.filter(
        ({ name, advertised }) =>
          isShown(advertised) && (member.uris === "prefix" || !this.#deps.uris.isShadowed(member, name)),
      );
    if (named === undefined) return [...entries];
    const unlisted = member.prefix === "" ? this.#deps.names.unlisted(named) : [];
    if (unlisted.length > 0) {
      const reason = `bare names are offered once the list of ${unlisted.join(", ")} is known`;
      this.#note(filling, member, reason);
      // A list that is empty because a server is down must not look like a list of servers without tools.
      filling.answered.delete(member.name);
      return [];
    }
    return entries.filter(({ advertised }) => {
      const isClash = this.#deps.names.isClash(named, advertised);
      if (!isShown(advertised)) return false;
      if (isClash) filling.clashes.add(advertised);
      return !isClash;
    });
  }

  /** Takes entries of one member; returns where to continue if the page is full. */
  async #takeFrom(filling: Filling, start: ListPlace): Promise<ListPlace | undefined> {
    const { facts, entries } = filling;
    const member = this.#members[start.index];
    if (member === undefined) return undefined;
    const before = entries.length;
    const seen = new Set<string>();
    const cursors = new Set<string>();
    let place = start;
    let skip = place.offset;
    let hasRestarted = false;
    for (let read = 0; ; read++) {
      if (entries.length >= this.#listing.page) return place;
      if (read >= maxPagesPerFill) return entries.length > before ? place : this.#stuck(filling, member);
      const outcome = await this.#readPage(filling, member, place.cursor);
      if (outcome.type === "bad-cursor" && !hasRestarted) {
        hasRestarted = true;
        seen.clear();
        cursors.clear();
        skip = place.delivered;
        place = { ...place, cursor: undefined, offset: 0, pages: 0 };
        continue;
      }
      if (outcome.type === "bad-cursor") this.#note(filling, member, "the server refuses its own cursor");
      if (outcome.type === "absent") filling.absent++;
      if (outcome.type !== "page") return undefined;
      filling.answered.add(member.name);
      const { page } = outcome;
      filling.ttlMs = Math.min(filling.ttlMs, page.ttlMs);
      filling.isPublic &&= page.isPublic;
      // A server that repeats itself under new cursors would never end.
      const isRepeated = page.entries.length > 0 && page.entries.every(({ name }) => seen.has(name));
      if (isRepeated && page.next !== undefined) return this.#stuck(filling, member);
      const visible = this.#shown(filling, member, unseen(page.entries, seen));
      const rest = visible.slice(Math.min(skip, visible.length));
      const taken = rest.slice(0, this.#listing.page - entries.length);
      for (const entry of taken) entries.push(entry);
      const delivered = place.delivered + taken.length;
      if (taken.length < rest.length) {
        return { ...place, offset: visible.length - rest.length + taken.length, delivered };
      }
      skip = Math.max(0, skip - visible.length);
      if (page.next === undefined) {
        const isComplete = start.cursor === undefined && facts.named !== undefined;
        if (isComplete) this.#deps.names.learn(member, facts.named, seen);
        return undefined;
      }
      if (page.next.length > maxCursorLength)
        return this.#stuck(filling, member, `the server's cursor is longer than ${maxCursorLength} characters`);
      if (page.next === place.cursor || cursors.has(page.next) || place.pages >= maxPages)
        return this.#stuck(filling, member);
      cursors.add(page.next);
      place = { ...place, cursor: page.next, offset: 0, delivered, pages: place.pages + 1 };
    }
  }

  #stuck(filling: Filling, member: MemberOptions, reason = "the server's cursor does not advance"): undefined {
    this.#note(filling, member, reason);
  }

  #checkMissing({ facts, degraded, answered, absent }: Filling, isFirst: boolean): void {
    const missing = degraded.filter(({ stale }) => !stale);
    const required = missing.find(
      ({ upstream }) => this.#members.find(({ name }) => name === upstream)?.required === true,
    );
    const isRefused = this.#listing.partial === "refuse" && missing.length > 0;
    const hasNone = isFirst && missing.length > 0 && answered.size === 0;
    if (required !== undefined || isRefused || hasNone) {
      const upstreams = missing.map(({ upstream, reason }) => ({ upstream, reason }));
      const named = upstreams.map(({ upstream, reason }) => `${upstream} (${reason})`).join(", ");
      throw new GatewayError("upstream_unreachable", `the list is incomplete: ${named}`, { details: { upstreams } });
    }
    if (isFirst && absent === this.#members.length)
      throw new GatewayError("method_not_found", `no server behind this endpoint has ${facts.method}`);
  }

  #startOf(index: number): ListPlace {
    return { index, member: this.#members[index]?.name ?? "", cursor: undefined, offset: 0, delivered: 0, pages: 0 };
  }

  /** A member may have moved or gone since the cursor was written; its successor is now where it was. */
  #placeIn(place: ListPlace | undefined): ListPlace {
    if (place === undefined) return this.#startOf(0);
    const index = this.#members.findIndex(({ name }) => name === place.member);
    return index < 0 ? this.#startOf(place.index) : { ...place, index };
  }

  /**
   * Reads the complete lists of some members, because a name is not known. A list that was read for this a moment ago is
   * not read again before it changes, so that made-up names cost the servers nothing.
   */
  async lookUp(exchange: Exchange, facts: ListFacts, wanted: readonly string[]): Promise<void> {
    const now = this.#deps.clock.now();
    const members = this.#members.filter(({ name }) => wanted.includes(name));
    const reading = members.map((member) => {
      const catalogue = this.#deps.catalogueOf(member, exchange);
      const lookUps = this.#lookUps.get(catalogue) ?? new Map<string, LookUp>();
      this.#lookUps.set(catalogue, lookUps);
      const last = lookUps.get(facts.method);
      if (last !== undefined && last.version === catalogue.version && now < last.until) return last.reading;
      const own = this.#readWhole(exchange, facts, member);
      lookUps.set(facts.method, { reading: own, version: catalogue.version, until: now + lookUpEveryMs });
      return own;
    });
    await Promise.all(reading);
  }

  /** Reads the complete lists of some members, so that their names are known. */
  async #readAll(exchange: Exchange, facts: ListFacts, wanted: readonly string[]): Promise<void> {
    const members = this.#members.filter(({ name }) => wanted.includes(name));
    await Promise.all(members.map((member) => this.#readWhole(exchange, facts, member)));
  }

  async #readWhole(exchange: Exchange, facts: ListFacts, member: MemberOptions): Promise<void> {
    const catalogue = this.#deps.catalogueOf(member, exchange);
    const listed: string[] = [];
    const cursors = new Set<string>();
    let cursor: string | undefined;
    while (cursors.size < maxPagesPerFill) {
      const outcome = await this.#inTime(catalogue.read(exchange, facts, cursor));
      this.#learnUris(member, facts, outcome);
      if (outcome.type === "failed" || outcome.type === "bad-cursor") return;
      if (outcome.type === "page") listed.push(...outcome.page.entries.map(({ name }) => name));
      const next = outcome.type === "page" ? outcome.page.next : undefined;
      if (next === undefined || cursors.has(next) || next.length > maxCursorLength) {
        if (facts.named !== undefined) this.#deps.names.learn(member, facts.named, listed);
        return;
      }
      cursors.add(next);
      cursor = next;
    }
  }

  /** Notes what a list lacks, once for each member. */
  #note({ degraded, exchange }: Filling, member: MemberOptions, reason: string, stale = false): void {
    if (degraded.some(({ upstream }) => upstream === member.name)) return;
    const catalogue = this.#deps.catalogueOf(member, exchange);
    const since = this.#missingSince.get(catalogue) ?? new Date(this.#deps.clock.wall()).toISOString();
    this.#missingSince.set(catalogue, since);
    degraded.push({ upstream: member.name, reason, since, stale });
  }

  #noteComplete({ degraded, answered, exchange }: Filling): void {
    for (const member of this.#members) {
      if (answered.has(member.name) && !degraded.some(({ upstream }) => upstream === member.name))
        this.#missingSince.delete(this.#deps.catalogueOf(member, exchange));
    }
  }
}

/** Entries that a member has not listed before: model providers refuse all tools if two have the same name. */
function unseen(entries: readonly CatalogueEntry[], seen: Set<string>): readonly CatalogueEntry[] {
  return entries.filter(({ name }) => {
    const isNew = !seen.has(name);
    if (isNew) seen.add(name);
    return isNew;
  });
}
