import { BoundedMap } from "../../lib/bounded-map.ts";
import { createGlobTest } from "../../lib/glob.ts";
import type { Principal } from "../../core/exchange.ts";
import type { MemberOptions } from "./member-options.ts";
import { ownUri } from "./member-uris.ts";

/** How many URIs, templates and mentions are remembered. */
const maxUris = 100_000;
const maxTemplates = 10_000;
const maxMentions = 100_000;

interface OwnedTemplate {
  readonly member: string;
  readonly fits: (uri: string) => boolean;
  /** Characters outside of expressions: the longer, the more specific. */
  readonly literals: number;
}

/**
 * Which member a URI belongs to. URIs are locators and not names: clients return them as they are, and servers write them
 * into texts, so they are not changed, and lists and results tell whose they are.
 */
export class UriOwners {
  readonly #order: readonly string[];
  readonly #listed = new BoundedMap<string, ReadonlySet<string>>(maxUris);
  readonly #templates = new BoundedMap<string, OwnedTemplate>(maxTemplates);
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
    const owners = this.#listed.get(uri);
    if (owners?.has(member) !== true) this.#listed.set(uri, new Set([...(owners ?? []), member]));
  }

  /** A member listed this URI template. */
  learnTemplate(member: string, template: string): void {
    const key = `${member} ${template}`;
    if (this.#templates.has(key)) return;
    const parts = template.split(/\{[^{}]*\}/u);
    this.#templates.set(key, { member, fits: createGlobTest([parts.join("*")]), literals: parts.join("").length });
  }

  /** A member mentioned this URI in a result for a caller. */
  mention(member: string, { id }: Principal, uri: string): void {
    this.#mentioned.set(`${id} ${uri}`, member);
  }

  /** The member that a URI or URI template belongs to; the first in order where several list it. */
  ownerOf({ id }: Principal, uri: string): string | undefined {
    const owners = this.#listed.get(uri);
    if (owners !== undefined) return this.#order.find((member) => owners.has(member));
    return this.#templateOwner(uri) ?? this.#mentioned.get(`${id} ${uri}`);
  }

  /** Whether an earlier member lists the same URI or URI template, so that this member's is never reached. */
  isShadowed({ name }: MemberOptions, uri: string): boolean {
    const owners = this.#listed.get(uri);
    const earlier = this.#order.slice(0, this.#order.indexOf(name));
    return earlier.some((member) => owners?.has(member) === true || this.#templates.has(`${member} ${uri}`));
  }

  #templateOwner(uri: string): string | undefined {
    for (const member of this.#order) if (this.#templates.has(`${member} ${uri}`)) return member;
    let best: OwnedTemplate | undefined;
    for (const template of this.#templates.values()) {
      if (!template.fits(uri)) continue;
      const isBetter =
        best === undefined ||
        template.literals > best.literals ||
        (template.literals === best.literals &&
          this.#order.indexOf(template.member) < this.#order.indexOf(best.member));
      if (isBetter) best = template;
    }
    return best?.member;
  }
}
