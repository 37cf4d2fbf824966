import { createHash } from "node:crypto";

import { BoundedMap } from "../../lib/bounded-map.ts";
import { isObject } from "../../lib/is-object.ts";
import { editObject } from "../../protocol/json/edit.ts";
import { type Span, spanOf } from "../../protocol/json/outline.ts";
import { decodeString, elementsOf, membersOf, typeAt } from "../../protocol/json/read.ts";
import type { ResultMessage } from "../../protocol/message.ts";
import type { AdvertisedNames } from "../names/advertised-names.ts";
import type { ListFacts } from "../names/list-facts.ts";
import { advertisedUri, rewriteUris } from "../names/member-uris.ts";
import { advertisedTask } from "../names/member-messages.ts";
import type { MemberOptions } from "../names/member-options.ts";
import { overrideDefinition } from "../names/tool-overrides.ts";
import type { UriOwners } from "../names/uri-owners.ts";

/** An entry of a member's list. */
export interface CatalogueEntry {
  readonly member: string;
  /** The name as the server writes it, or the URI, URI template or task id. */
  readonly name: string;
  /** The name that clients see. */
  readonly advertised: string;
  /** The JSON text that clients see. */
  readonly json: string;
}

/** Reads the entries of a member's lists. */
export interface EntryReader {
  /** The entries of a page in order; those that are not offered are left out. */
  read(facts: ListFacts, page: ResultMessage): readonly CatalogueEntry[];
}

/** The key of a tool among the definitions that overrides change. */
export function catalogueKey(member: string, name: string): string {
  return `${member} ${name}`;
}

/** How many pages of a member are shared between sessions that read the same. */
const maxShared = 256;

/**
 * Creates the reader of one member. Pages with the same bytes become the same entries: many sessions list the same tools,
 * and must not each keep a copy. Tools that overrides change are kept in `definitions` as their server wrote them.
 */
export function createEntryReader(
  member: MemberOptions,
  names: AdvertisedNames,
  uris: Pick<UriOwners, "prefixOwner">,
  definitions: Map<string, string> = new Map(),
): EntryReader {
  const shared = new BoundedMap<string, readonly CatalogueEntry[]>(maxShared);

  function toEntry(facts: ListFacts, bytes: Buffer, span: Span): Omit<CatalogueEntry, "member"> | undefined {
    const name = nameIn(bytes, span, facts.key);
    if (name === undefined) return undefined;
    if (facts.key === "taskId") {
      const advertised = advertisedTask(member.name, name);
      return { name, advertised, json: withName(bytes, span, facts.key, advertised) };
    }
    if (facts.named === undefined) {
      // A URI must not look like one of another member, whether or not that has such a resource today.
      if (uris.prefixOwner(name) !== undefined) return undefined;
      return { name, advertised: advertisedUri(member, name), json: withPrefixedUris(bytes, span) };
    }
    const advertised = names.advertise(member, facts.named, name);
    if (advertised === undefined) return undefined;
    const renamed = withName(bytes, span, facts.key, advertised);
    const json = member.uris === "prefix" ? withPrefixedUris(Buffer.from(renamed)) : renamed;
    const override = facts.named === "tool" ? names.overrideOf(advertised) : undefined;
    if (override === undefined) return { name, advertised, json };
    definitions.set(catalogueKey(member.name, name), bytes.toString("utf8", span.start, span.end));
    // It has a name, so it is an object.
    const tool = JSON.parse(json) as Readonly<Record<string, unknown>>;
    return { name, advertised, json: JSON.stringify(overrideDefinition(tool, override)) };
  }

  /** The JSON text of an entry with the URIs that clients see. */
  function withPrefixedUris(bytes: Buffer, span: Span = { start: 0, end: bytes.length }): string {
    if (member.uris !== "prefix") return bytes.toString("utf8", span.start, span.end);
    return rewriteUris(bytes, span, (uri) => advertisedUri(member, uri)).toString();
  }

  return {
    read: (facts, page) => {
      const list = listSpan(facts, page);
      if (list === undefined) return [];
      const { bytes } = page;
      const digest = createHash("sha256").update(bytes.subarray(list.start, list.end)).digest("base64url");
      const key = `${facts.method} ${digest}`;
      const known = shared.touch(key);
      if (known !== undefined) return known;
      const entries = [...elementsOf(bytes, list)].flatMap((span) => {
        const entry = toEntry(facts, bytes, span);
        return entry === undefined ? [] : [{ member: member.name, ...entry }];
      });
      shared.set(key, entries);
      return entries;
    },
  };
}

/** Lists as they were last written, by their first entry. Needed by bench federation: "warm list of". */
const written = new WeakMap<CatalogueEntry, { readonly entries: readonly CatalogueEntry[]; readonly json: Buffer }>();

/** The JSON array of entries. Many clients read the same list, so it is made once. */
export function formatEntries(entries: readonly CatalogueEntry[]): Buffer {
  const [first] = entries;
  const known = first === undefined ? undefined : written.get(first);
  if (known?.entries.length === entries.length && entries.every((entry, index) => entry === known.entries[index]))
    return known.json;
  const json = Buffer.from(`[${entries.map((entry) => entry.json).join(",")}]`);
  if (first !== undefined) written.set(first, { entries, json });
  return json;
}

function withName(bytes: Buffer, entry: Span, key: ListFacts["key"], name: string): string {
  return editObject(bytes, entry, (member) => (member === key ? { json: JSON.stringify(name) } : "keep")).toString();
}

function listSpan(facts: ListFacts, page: ResultMessage): Span | undefined {
  const { bytes, outline } = page;
  if (facts.span !== undefined) return arrayAt(bytes, spanOf(outline, facts.span));
  const result = spanOf(outline, "result");
  if (result === undefined || typeAt(bytes, result.start) !== "object") return undefined;
  const member = [...membersOf(bytes, result)].find(({ name }) => name === facts.member);
  return arrayAt(bytes, member?.value);
}

function arrayAt(bytes: Buffer, span: Span | undefined): Span | undefined {
  return span !== undefined && typeAt(bytes, span.start) === "array" ? span : undefined;
}

function nameIn(bytes: Buffer, element: Span, key: ListFacts["key"]): string | undefined {
  if (typeAt(bytes, element.start) !== "object") return undefined;
  for (const { name, value } of membersOf(bytes, element)) {
    if (name !== key) continue;
    return typeAt(bytes, value.start) === "string" ? decodeString(bytes, value.start, value.end) : undefined;
  }
  return undefined;
}

/** The details of a capability; undefined if it is not declared. */
export function capabilityOf(capabilities: unknown, name: string): Readonly<Record<string, unknown>> | undefined {
  const details = isObject(capabilities) ? capabilities[name] : undefined;
  return isObject(details) ? details : undefined;
}
