import { isObject } from "../../lib/is-object.ts";
import { spanOf } from "../../protocol/json/outline.ts";
import { memberValue } from "../../protocol/json/read.ts";
import type { Message } from "../../protocol/message.ts";
import { withValue } from "./member-messages.ts";
import type { MemberOptions } from "./member-options.ts";

/** What stands between a prefix and a URI; schemes may have it. */
const separator = "+";
/** Pages of MCP Apps keep their scheme, by which clients know them. */
const pages = "ui://";

/** A URI or URI template as clients see it. */
export function advertisedUri({ uris, prefix }: MemberOptions, uri: string): string {
  if (uris !== "prefix") return uri;
  return uri.startsWith(pages)
    ? `${pages}${prefix}${separator}${uri.slice(pages.length)}`
    : `${prefix}${separator}${uri}`;
}

/** A URI as the member writes it; undefined if it does not have the member's prefix. */
export function ownUri({ uris, prefix }: MemberOptions, uri: string): string | undefined {
  if (uris !== "prefix") return undefined;
  const [scheme, rest] = uri.startsWith(pages) ? [pages, uri.slice(pages.length)] : ["", uri];
  const start = `${prefix}${separator}`;
  return rest.startsWith(start) ? `${scheme}${rest.slice(start.length)}` : undefined;
}

/** The message of a member as clients get it, with its prefix before every URI of a resource. */
export function withAdvertisedUris<Kind extends Message>(message: Kind, member: MemberOptions): Kind {
  return member.uris === "prefix" ? withUris(message, (uri) => advertisedUri(member, uri)) : message;
}

/** The message of a client as a member gets it, without its prefix. */
export function withOwnUris<Kind extends Message>(message: Kind, member: MemberOptions): Kind {
  return member.uris === "prefix" ? withUris(message, (uri) => ownUri(member, uri) ?? uri) : message;
}

type Rewrite = (uri: string) => string;

function withUris<Kind extends Message>(message: Kind, rewrite: Rewrite): Kind {
  let changed = message;
  // Of an error only its data, which say what was not found.
  for (const part of ["params", "result", "error.data"] as const) {
    if (spanOf(changed.outline, part) === undefined) continue;
    const before: unknown = memberValue(changed, part);
    const after = rewriteUris(before, rewrite);
    if (after !== before) changed = withValue(changed, part, after);
  }
  return changed;
}

/** Members that hold the URI of a resource. */
const uriMembers: ReadonlySet<string> = new Set(["uri", "uriTemplate", "resourceUri", "ui/resourceUri"]);
/** Members that hold a list of them. */
const uriLists: ReadonlySet<string> = new Set(["resourceSubscriptions"]);
/**
 * Members that lead there. What is the business of servers and their callers is not among them: arguments, structured
 * content, schemas and logged data, and `roots`, which are the client's.
 */
const leading: ReadonlySet<string> = new Set([
  "content",
  "contents",
  "messages",
  "resource",
  "resources",
  "resourceTemplates",
  "tools",
  "_meta",
  "ui",
  "ref",
  "notifications",
  "params",
  // Of a task.
  "result",
]);
/** Members whose members have names of their own that lead there. */
const leadingMaps: ReadonlySet<string> = new Set(["inputRequests", "inputResponses"]);

/** The same value with other URIs of resources; the value itself if it has none. */
export function rewriteUris(value: unknown, rewrite: Rewrite): unknown {
  if (Array.isArray(value)) {
    const items = value.map((item) => rewriteUris(item, rewrite));
    return items.some((item, index) => item !== value[index]) ? items : value;
  }
  if (!isObject(value)) return value;
  const entries = Object.entries(value).map(([name, inner]) => [name, rewriteMember(name, inner, rewrite)] as const);
  return entries.some(([name, inner]) => inner !== value[name]) ? Object.fromEntries(entries) : value;
}

function rewriteMember(name: string, value: unknown, rewrite: Rewrite): unknown {
  if (uriMembers.has(name)) return typeof value === "string" ? rewrite(value) : value;
  if (uriLists.has(name) && Array.isArray(value))
    return value.map((uri: unknown) => (typeof uri === "string" ? rewrite(uri) : uri));
  if (leading.has(name)) return rewriteUris(value, rewrite);
  if (leadingMaps.has(name) && isObject(value))
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, rewriteUris(inner, rewrite)]));
  return value;
}
