import { createHash } from "node:crypto";

import { BoundedMap } from "../../lib/bounded-map.ts";
import { cutName, isCutForm } from "../../lib/text/cut-name.ts";
import { createGlobTest } from "../../lib/text/glob.ts";
import type { FederationOptions, MemberOptions } from "./member-options.ts";
import type { ToolOverride } from "./tool-overrides.ts";

/** The kinds of things with a name; resources have URIs. */
export type NamedKind = "tool" | "prompt";

/** What a name that clients use stands for. */
export interface Target {
  readonly member: string;
  /** The name as the server writes it. */
  readonly name: string;
  /** The JSON text of that name, where clients use another one. */
  readonly json?: Buffer | undefined;
}

/**
 * What a name stands for. `unlisted` means that the lists of these members have to be read first: the name is cut, or
 * several members have bare names.
 */
export type Resolution =
  | { readonly type: "target"; readonly target: Target }
  | { readonly type: "unlisted"; readonly members: readonly string[] }
  | { readonly type: "unknown" };

const unknown: Resolution = { type: "unknown" };
/** How many cut names are remembered; the lists bring back what is forgotten. */
const maxCutNames = 100_000;
/** How many names are kept with what they stand for. */
const maxResolved = 10_000;

/**
 * The names under which a federation offers what its members have. A name is a pure function of the configuration and
 * of (member, name): no other server, and no list, can change what a name means, so no rule applies to a tool that it
 * was not written for.
 */
export class AdvertisedNames {
  readonly #members: readonly MemberOptions[];
  readonly #bare: readonly MemberOptions[];
  readonly #separator: string;
  readonly #maxLength: number;
  readonly #overrides: ReadonlyMap<string, ToolOverride>;
  /** The names that overrides give to tools, with those that they would have. */
  readonly #renamed: ReadonlyMap<string, string>;
  readonly #isAllowed: ReadonlyMap<string, (tool: string) => boolean>;
  /** Cut names that were seen in lists, with what they stand for. Two that come out equal stand for nothing. */
  readonly #cut = new BoundedMap<string, Target | "clash">(maxCutNames);
  /** Names that stand for the same as long as this configuration lasts. Needed by bench federation: "call of a". */
  readonly #resolved = {
    tool: new BoundedMap<string, Resolution>(maxResolved),
    prompt: new BoundedMap<string, Resolution>(maxResolved),
  } as const;
  /** The names of members with bare names, as their last complete lists have them. */
  readonly #listed = new Map<string, ReadonlySet<string>>();

  constructor(options: Pick<FederationOptions, "members" | "separator" | "nameLength" | "overrides">) {
    const { members, separator, nameLength, overrides = new Map<string, ToolOverride>() } = options;
    this.#overrides = overrides;
    this.#renamed = new Map(
      [...overrides].flatMap(([plain, { name }]) => (name === undefined || name === plain ? [] : [[name, plain]])),
    );
    this.#members = members;
    this.#bare = members.filter(({ prefix }) => prefix === "");
    this.#separator = separator;
    this.#maxLength = nameLength;
    this.#isAllowed = new Map(members.map(({ name, allowedTools }) => [name, createGlobTest(allowedTools)]));
  }

  /** The override of a tool, by the name that clients see. */
  overrideOf(advertised: string): ToolOverride | undefined {
    return this.#overrides.get(this.#renamed.get(advertised) ?? advertised);
  }

  /** The name that clients see; undefined if it is not offered. */
  advertise(member: MemberOptions, kind: NamedKind, name: string): string | undefined {
    const plain = this.#plainName(member, kind, name);
    if (plain === undefined || kind !== "tool") return plain;
    const override = this.#overrides.get(plain);
    if (override?.hide === true) return undefined;
    // A name that an override gives to another tool is taken, whether or not that tool exists.
    return override?.name ?? (this.#renamed.has(plain) ? undefined : plain);
  }

  #plainName(member: MemberOptions, kind: NamedKind, name: string): string | undefined {
    // An empty name would look like a prefix alone, and lead nowhere.
    if (name === "" || !this.#isOffered(member, kind, name)) return undefined;
    const full = member.prefix === "" ? name : `${member.prefix}${this.#separator}${name}`;
    // A bare name must not look like one of another member, whether or not that has such a tool today.
    if (member.prefix === "" && this.#ownerByPrefix(name) !== undefined) return undefined;
    if (!this.#isCut(full)) return full;
    const cut = cutName(full, this.#maxLength, digestOf(member.name, name));
    const known = this.#cut.get(`${kind} ${cut}`);
    const isSame = known === undefined || (known !== "clash" && known.member === member.name && known.name === name);
    if (known === undefined) this.#cut.set(`${kind} ${cut}`, targetOf(member, name, cut));
    else if (!isSame) this.#cut.set(`${kind} ${cut}`, "clash");
    return cut;
  }

  /** Remembers the complete list of a member. */
  learn(member: MemberOptions, kind: NamedKind, names: Iterable<string>): void {
    if (member.prefix === "" && this.#bare.length > 1) this.#listed.set(`${kind} ${member.name}`, new Set(names));
  }

  /** Whether several members advertise this name, so that it stands for nothing. */
  isClash(kind: NamedKind, advertised: string): boolean {
    // An override does not resolve a clash of names.
    const plain = (kind === "tool" ? this.#renamed.get(advertised) : undefined) ?? advertised;
    if (this.#cut.get(`${kind} ${plain}`) === "clash") return true;
    if (this.#bare.length < 2 || this.#ownerByPrefix(plain) !== undefined) return false;
    return this.#bareOwners(kind, plain).length > 1;
  }

  /** Members whose lists are needed before any bare name stands for something. */
  unlisted(kind: NamedKind): readonly string[] {
    if (this.#bare.length < 2) return [];
    return this.#bare.map(({ name }) => name).filter((name) => !this.#listed.has(`${kind} ${name}`));
  }

  /** What a name stands for. */
  resolve(kind: NamedKind, advertised: string): Resolution {
    return this.#resolved[kind].get(advertised) ?? this.#resolveAnew(kind, advertised);
  }

  #resolveAnew(kind: NamedKind, advertised: string): Resolution {
    if (kind !== "tool" || this.#overrides.size === 0) return this.#resolvePlain(kind, advertised);
    const plain = this.#renamed.get(advertised);
    if (plain !== undefined) return this.#resolvePlain(kind, plain, advertised);
    const override = this.#overrides.get(advertised);
    const isGone = override?.hide === true || (override?.name !== undefined && override.name !== advertised);
    return isGone ? unknown : this.#resolvePlain(kind, advertised);
  }

  /** What a name stands for that no override has changed; `advertised` is the one that clients use. */
  #resolvePlain(kind: NamedKind, plain: string, advertised = plain): Resolution {
    const owner = this.#ownerByPrefix(plain);
    if (owner === undefined) return this.#resolveBare(kind, plain, advertised);
    if (this.#isCut(plain)) return this.#resolveCut(kind, plain, [owner.name]);
    const name = plain.slice(owner.prefix.length + this.#separator.length);
    const resolution = this.#targetOf(owner, kind, name, advertised);
    // Neither lists nor other servers can change it, and it is short.
    if (resolution.type === "target") this.#resolved[kind].set(advertised, resolution);
    return resolution;
  }

  #resolveBare(kind: NamedKind, plain: string, advertised: string): Resolution {
    const [only, another] = this.#bare;
    if (only === undefined) return unknown;
    if (this.#isCut(plain)) {
      return this.#resolveCut(
        kind,
        plain,
        this.#bare.map(({ name }) => name),
      );
    }
    if (another === undefined) return this.#targetOf(only, kind, plain, advertised);
    const unlisted = this.unlisted(kind);
    if (unlisted.length > 0) return { type: "unlisted", members: unlisted };
    const [owner, second] = this.#bareOwners(kind, plain);
    if (owner === undefined) return { type: "unlisted", members: this.#bare.map(({ name }) => name) };
    return second === undefined ? this.#targetOf(owner, kind, plain, advertised) : unknown;
  }

  #resolveCut(kind: NamedKind, advertised: string, members: readonly string[]): Resolution {
    const target = this.#cut.get(`${kind} ${advertised}`);
    if (target === "clash" || advertised.length > this.#maxLength) return unknown;
    return target === undefined ? { type: "unlisted", members } : { type: "target", target };
  }

  #targetOf(member: MemberOptions, kind: NamedKind, name: string, advertised: string): Resolution {
    if (name === "" || !this.#isOffered(member, kind, name)) return unknown;
    return { type: "target", target: targetOf(member, name, advertised) };
  }

  #bareOwners(kind: NamedKind, name: string): readonly MemberOptions[] {
    return this.#bare.filter((member) => this.#listed.get(`${kind} ${member.name}`)?.has(name) === true);
  }

  #isOffered(member: MemberOptions, kind: NamedKind, name: string): boolean {
    return kind !== "tool" || this.#isAllowed.get(member.name)?.(name) === true;
  }

  /** Prefixes do not contain the separator, so at most one fits. */
  #ownerByPrefix(advertised: string): MemberOptions | undefined {
    const end = advertised.indexOf(this.#separator);
    if (end <= 0) return undefined;
    return this.#members.find(({ prefix }) => prefix.length === end && advertised.startsWith(prefix));
  }

  /** A name of full length that looks cut is cut too, so that a name is never both. */
  #isCut(full: string): boolean {
    return full.length > this.#maxLength || (full.length === this.#maxLength && isCutForm(full));
  }
}

function targetOf(member: MemberOptions, name: string, advertised: string): Target {
  return { member: member.name, name, json: name === advertised ? undefined : Buffer.from(JSON.stringify(name)) };
}

function digestOf(member: string, name: string): Buffer {
  return createHash("sha256")
    .update(JSON.stringify([member, name]))
    .digest();
}
