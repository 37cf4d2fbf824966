import type { Client, Prompt, Resource, ResourceTemplateType, Tool } from "@modelcontextprotocol/client";

import { isObject } from "../../lib/is-object.ts";
import { printableLine } from "../text-layout.ts";

type Meta = Readonly<Record<string, unknown>>;

/** All pages of a list, with what they say about it. */
export interface WholeList<Entry> {
  readonly entries: readonly Entry[];
  /** What a gateway says about a list of several servers: what it lacks, and which names clash or were cut. */
  readonly notes: ListNotes;
}

/** The `_meta` of a gateway about a list of several servers. */
export interface ListNotes {
  readonly degraded: readonly Meta[];
  readonly clashes: readonly string[];
  /** The servers' own names of cut ones. */
  readonly cut: Readonly<Record<string, string>>;
}

/** The empty list, for servers without the capability. */
export const noList: WholeList<never> = { entries: [], notes: { degraded: [], clashes: [], cut: {} } };

interface Page {
  readonly nextCursor?: string | undefined;
  readonly _meta?: Meta | undefined;
}

/** A server whose cursors never end must not hang a command. */
const maxPages = 1000;
const noteKeys = { degraded: "headgate/degraded", clashes: "headgate/clashes", cut: "headgate/cut" } as const;

export const readTools = (client: Client): Promise<WholeList<Tool>> =>
  readPages(
    "tools/list",
    (params) => client.request({ method: "tools/list", params }),
    ({ tools }) => tools,
  );

export const readPrompts = (client: Client): Promise<WholeList<Prompt>> =>
  readPages(
    "prompts/list",
    (params) => client.request({ method: "prompts/list", params }),
    ({ prompts }) => prompts,
  );

export const readResources = (client: Client): Promise<WholeList<Resource>> =>
  readPages(
    "resources/list",
    (params) => client.request({ method: "resources/list", params }),
    ({ resources }) => resources,
  );

export const readResourceTemplates = (client: Client): Promise<WholeList<ResourceTemplateType>> =>
  readPages(
    "resources/templates/list",
    (params) => client.request({ method: "resources/templates/list", params }),
    ({ resourceTemplates }) => resourceTemplates,
  );

/** Does not use the SDK's own paging, which only keeps the `_meta` of the first page. */
async function readPages<One extends Page, Entry>(
  method: string,
  ask: (params: { cursor?: string }) => Promise<One>,
  entriesOf: (page: One) => readonly Entry[],
): Promise<WholeList<Entry>> {
  const entries: Entry[] = [];
  const notes: ListNotes[] = [];
  const seen = new Set<string>();
  let cursor: string | undefined;
  do {
    const page = await ask(cursor === undefined ? {} : { cursor });
    entries.push(...entriesOf(page));
    notes.push(notesIn(page._meta));
    cursor = page.nextCursor;
    if (cursor !== undefined && (seen.has(cursor) || seen.size >= maxPages))
      throw new Error(`${method}: the server's cursors do not end`);
    if (cursor !== undefined) seen.add(cursor);
  } while (cursor !== undefined);
  return { entries, notes: mergeNotes(notes) };
}

/** The `_meta` of one page. */
function notesIn(meta: Meta = {}): ListNotes {
  const { degraded, clashes, cut } = noteKeys;
  return {
    degraded: arrayIn(meta[degraded]).filter(isObject),
    clashes: arrayIn(meta[clashes]).map(String),
    cut: isObject(meta[cut])
      ? Object.fromEntries(Object.entries(meta[cut]).map(([name, own]) => [name, String(own)]))
      : {},
  };
}

/** The combined `_meta` of several lists, each server and name once. */
export function mergeNotes(notes: readonly ListNotes[]): ListNotes {
  const degraded = new Map(
    notes.flatMap((one) =>
      one.degraded.map((entry) => [`${String(entry["upstream"])} ${String(entry["reason"])}`, entry]),
    ),
  );
  return {
    degraded: [...degraded.values()],
    clashes: [...new Set(notes.flatMap(({ clashes }) => clashes))],
    cut: Object.assign({}, ...notes.map(({ cut }) => cut)) as ListNotes["cut"],
  };
}

/** The same as `_meta` of the whole list; empty without gaps, clashes and cut names. */
export function metaOf({ degraded, clashes, cut }: ListNotes): { readonly _meta?: Meta } {
  const meta = {
    ...(degraded.length === 0 ? {} : { [noteKeys.degraded]: degraded }),
    ...(clashes.length === 0 ? {} : { [noteKeys.clashes]: clashes }),
    ...(Object.keys(cut).length === 0 ? {} : { [noteKeys.cut]: cut }),
  };
  return Object.keys(meta).length === 0 ? {} : { _meta: meta };
}

/** What a list lacks and why, and which names were cut: a line each. */
export function gapsOf({ degraded, clashes, cut }: ListNotes): readonly string[] {
  const missing = degraded.map(({ upstream, reason, since, stale }) => {
    const what = stale === true ? "shown as it was earlier" : "missing";
    return `${String(upstream)} is ${what} since ${String(since)}: ${String(reason)}`;
  });
  const equal = clashes.map((name) => `${name} is left out: several servers have it`);
  const short = Object.entries(cut).map(([name, own]) => `${name} is cut from ${own}`);
  return [...missing, ...equal, ...short].map(printableLine);
}

/** The same as the end of a list; empty without gaps. */
export function formatGaps(notes: ListNotes): string {
  const gaps = gapsOf(notes);
  return gaps.length === 0 ? "" : `\n${gaps.map((line) => `${line}\n`).join("")}`;
}

function arrayIn(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}
