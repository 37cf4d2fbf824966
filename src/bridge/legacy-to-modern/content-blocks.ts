import type { Span } from "../../protocol/json/outline.ts";
import { typeAt } from "../../protocol/json/read.ts";
import { splice } from "../../protocol/json/splice.ts";
import type { Replacement } from "../../protocol/json/splice.ts";
import { elementsOf, membersOf } from "../../protocol/json/walk.ts";
import { revisions } from "../../protocol/revisions.ts";
import type { ContentKind, Revision } from "../../protocol/revisions.ts";

/** Kinds that came after the first revision, and how a client that has none of them is told. */
const downgrades: Readonly<Partial<Record<ContentKind, (block: Block) => string>>> = {
  audio: ({ mimeType, data }) => {
    const size = typeof data === "string" ? Math.floor((data.length * 3) / 4) : 0;
    return `[audio, ${stringOrUndefined(mimeType) ?? "unknown type"}, about ${size} bytes: this client's revision of MCP cannot carry it]`;
  },
  resource_link: ({ name, title, uri, description }) => {
    const label = stringOrUndefined(title) ?? stringOrUndefined(name);
    const link = stringOrUndefined(uri) ?? "";
    const about = stringOrUndefined(description);
    return `${label === undefined ? link : `${label}: ${link}`}${about === undefined ? "" : `\n${about}`}`;
  },
};

type Block = Readonly<Record<string, unknown>>;

/** Whether every kind of content is known in a revision, so that nothing has to be looked at. */
export function supportsAllContent(revision: Revision): boolean {
  const { contentKinds } = revisions[revision];
  return Object.keys(downgrades).every((kind) => contentKinds.includes(kind as ContentKind));
}

/** A list of content blocks with those that the revision does not know turned into text; undefined when none is. */
export function downgradeContent(bytes: Buffer, list: Span, revision: Revision): Buffer | undefined {
  return replaced(bytes, list, replacementsIn(bytes, list, revision));
}

/** The same for a list of prompt messages, each with one block. */
export function downgradePromptMessages(bytes: Buffer, list: Span, revision: Revision): Buffer | undefined {
  if (typeAt(bytes, list.start) !== "array") return undefined;
  const changes: Replacement[] = [];
  for (const message of elementsOf(bytes, list)) {
    if (typeAt(bytes, message.start) !== "object") continue;
    for (const { name, value } of membersOf(bytes, message)) {
      const change = name === "content" ? replacementOf(bytes, value, revision) : undefined;
      if (change !== undefined) changes.push(change);
    }
  }
  return replaced(bytes, list, changes);
}

function replacementsIn(bytes: Buffer, list: Span, revision: Revision): Replacement[] {
  if (typeAt(bytes, list.start) !== "array") return [];
  return [...elementsOf(bytes, list)].flatMap((block) => replacementOf(bytes, block, revision) ?? []);
}

function replacementOf(bytes: Buffer, block: Span, revision: Revision): Replacement | undefined {
  if (typeAt(bytes, block.start) !== "object") return undefined;
  const { contentKinds } = revisions[revision];
  const value = JSON.parse(bytes.toString("utf8", block.start, block.end)) as Block;
  const kind = Object.keys(downgrades).find((name) => name === value["type"]) as ContentKind | undefined;
  const tell = kind === undefined || contentKinds.includes(kind) ? undefined : downgrades[kind];
  if (tell === undefined) return undefined;
  return { span: block, bytes: Buffer.from(JSON.stringify({ type: "text", text: tell(value) })) };
}

function replaced(bytes: Buffer, within: Span, changes: readonly Replacement[]): Buffer | undefined {
  return changes.length === 0 ? undefined : splice(bytes, within, changes);
}

function stringOrUndefined(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}
