import { withReplacements } from "../../core/synthesize.ts";
import { type Replacement, splice } from "../../protocol/json/edit.ts";
import { type Span, spanOf } from "../../protocol/json/outline.ts";
import { decodeString, elementsOf, membersOf, typeAt } from "../../protocol/json/read.ts";
import type { Message } from "../../protocol/message.ts";
import type { MemberOptions } from "./member-options.ts";

/** The separator between prefix and URI, which is allowed in schemes. */
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

/** Only URIs change: everything beside them stays as it was written. */
function withUris<Kind extends Message>(message: Kind, rewrite: Rewrite): Kind {
  const { bytes, outline } = message;
  const found: Replacement[] = [];
  // Of an error only its data, which say what was not found.
  for (const part of ["params", "result", "error.data"] as const) {
    const span = spanOf(outline, part);
    if (span !== undefined) collect(bytes, span, rewrite, found);
  }
  return found.length === 0 ? message : withReplacements(message, found);
}

/** Members that hold the URI of a resource. */
const uriMembers: ReadonlySet<string> = new Set(["uri", "uriTemplate", "resourceUri", "ui/resourceUri"]);
/** Members that hold a list of them. */
const uriLists: ReadonlySet<string> = new Set(["resourceSubscriptions"]);
/**
 * Members that lead there. Not the content that belongs to servers and callers: arguments, structured content, schemas,
 * logged data and the client's `roots`.
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
  // Of the Skills extension.
  "skills",
  "skill",
]);
/** Members with arbitrary member names that lead there. */
const leadingMaps: ReadonlySet<string> = new Set(["inputRequests", "inputResponses"]);

/** The JSON text of a value with other URIs of resources. */
export function rewriteUris(bytes: Buffer, value: Span, rewrite: Rewrite): Buffer {
  const found: Replacement[] = [];
  collect(bytes, value, rewrite, found);
  return splice(bytes, value, found);
}

function collect(bytes: Buffer, value: Span, rewrite: Rewrite, found: Replacement[]): void {
  const type = typeAt(bytes, value.start);
  if (type === "array") for (const item of elementsOf(bytes, value)) collect(bytes, item, rewrite, found);
  if (type !== "object") return;
  for (const { name, value: inner } of membersOf(bytes, value)) {
    if (uriMembers.has(name)) collectUri(bytes, inner, rewrite, found);
    else if (leading.has(name)) collect(bytes, inner, rewrite, found);
    else if (uriLists.has(name) && typeAt(bytes, inner.start) === "array")
      for (const uri of elementsOf(bytes, inner)) collectUri(bytes, uri, rewrite, found);
    else if (leadingMaps.has(name) && typeAt(bytes, inner.start) === "object")
      for (const { value: one } of membersOf(bytes, inner)) collect(bytes, one, rewrite, found);
  }
}

function collectUri(bytes: Buffer, span: Span, rewrite: Rewrite, found: Replacement[]): void {
  if (typeAt(bytes, span.start) !== "string") return;
  const uri = decodeString(bytes, span.start, span.end);
  const rewritten = rewrite(uri);
  if (rewritten !== uri) found.push({ span, bytes: Buffer.from(JSON.stringify(rewritten)) });
}
