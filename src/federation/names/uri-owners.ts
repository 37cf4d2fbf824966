import { BoundedMap } from "../../lib/bounded-map.ts";
import { createGlobTest } from "../../lib/text/glob.ts";
import type { Principal } from "../../core/exchange.ts";
import type { MemberOptions } from "./member-options.ts";
import { ownUri } from "./member-uris.ts";

/**
 * How many URIs and templates of a member are remembered, and how many mentions of all. Each URI of a result that is not
 * listed is compared with all templates.
 */
const maxUris = 100_000;
const maxTemplates = 1000;
const maxMentions = 100_000;

interface OwnedTemplate {
  readonly member: string;
  readonly fits: (uri: string) => boolean;
  /** Characters outside of expressions: the longer, the more specific. */
  readonly literals: number;
}

/**
 * Which member a URI belongs to. URIs are locators: clients return them unchanged and servers write them into texts, so
 * they are not rewritten, and lists and results show which member they belong to.
 */
export class UriOwners {
  readonly #order: readonly string[];
  readonly #listed = new Map<string, BoundedMap<string, true>>();
  readonly #templates = new Map<string, BoundedMap<string, OwnedTemplate>>();
  readonly #mentioned = new BoundedMap<string, string>(maxMentions);

  readonly #prefixed: readonly MemberOptions[];

  constructor(members: readonly MemberOptions[]) {
    this.#order = members.map(({ name }) => name);
    this.#prefixed = members.filter(({ uris }) => uris === "prefix");
  }

  /** The member whose prefix a URI has, and the URI without it; undefined if it has none. */
  prefixOwner(uri: string): { readonly member: string; readonly name: string } | undefined {
    for (const member of this.#prefixed) {
      const name = ownUri(member, uri);
      if (name !== undefined) return { member: member.name, name };
    }
    return undefined;
  }

  /** A member listed this URI. */
  learn(member: string, uri: string): void {
    const own = this.#listed.get(member) ?? new BoundedMap<string, true>(maxUris);
    this.#listed.set(member, own);
    if (!own.has(uri)) own.set(uri, true);
  }

  /** A member listed this URI template. */
  learnTemplate(member: string, template: string): void {
    const own = this.#templates.get(member) ?? new BoundedMap<string, OwnedTemplate>(maxTemplates);
    this.#templates.set(member, own);
    if (own.has(template)) return;
    const parts = template.split(/\{[^{}]*\}/u);
    own.set(template, { member, fits: createGlobTest([parts.join("*")]), literals: parts.join("").length });
  }

  /** Forgets what a member listed; its lists bring back what they still have. */
  forget(member: string): void {
    this.#listed.delete(member);
    this.#templates.delete(member);
  }

  /** A member mentioned this URI in a result for a caller. */
  mention(member: string, { id }: Principal, uri: string): void {
    this.#mentioned.set(`${id} ${uri}`, member);
  }

  /** The member that a URI or URI template belongs to; the first in order where several list it. */
  ownerOf({ id }: Principal, uri: string): string | undefined {
    return this.listerOf(uri) ?? this.#mentioned.get(`${id} ${uri}`);
  }

  /** The same by lists alone: a member can mention what belongs to another one. */
  listerOf(uri: string): string | undefined {
    return this.#order.find((member) => this.#listed.get(member)?.has(uri)) ?? this.#templateOwner(uri);
  }

  /** Whether an earlier member lists the same URI or URI template, so that this member's is never reached. */
  isShadowed({ name }: MemberOptions, uri: string): boolean {
    const earlier = this.#order.slice(0, this.#order.indexOf(name));
    return earlier.some(
      (member) => this.#listed.get(member)?.has(uri) === true || this.#templates.get(member)?.has(uri) === true,
    );
  }

  #templateOwner(uri: string): string | undefined {
    const lister = this.#order.find((member) => this.#templates.get(member)?.has(uri));
    if (lister !== undefined) return lister;
    let best: OwnedTemplate | undefined;
    // The first in order of those that are equally specific.
    for (const member of this.#order) {
      for (const template of this.#templates.get(member)?.values() ?? []) {
        if (template.fits(uri) && template.literals > (best?.literals ?? -1)) best = template;
      }
    }
    return best?.member;
  }
}
