import { GatewayError } from "../../errors.ts";
import { parseHeaderParameters } from "../../protocol/header-parameters.ts";
import type { HeaderParameter } from "../../protocol/header-parameters.ts";
import type { Span } from "../../protocol/json/outline.ts";
import { spanOf } from "../../protocol/json/outline.ts";
import { memberString, typeAt } from "../../protocol/json/read.ts";
import { elementsOf } from "../../protocol/json/walk.ts";
import type { Message } from "../../protocol/message.ts";
import { changeMembers } from "../object-edit.ts";
import { needsWrapping, wrapOutputSchema } from "./output-schema.ts";

/** What the bridge must know of a tool before it can call it. */
export interface ToolFacts {
  /** Arguments that are repeated in headers. */
  readonly parameters: readonly HeaderParameter[];
  /** The client was told that its structured content is an object with the value as `result`. */
  readonly isWrapped: boolean;
}

/** The tools of one upstream as one client may see them. */
export interface ToolCache {
  /** What is known of a tool; reads the list first when it has not been read yet. */
  find(name: string): ToolFacts | undefined | Promise<ToolFacts | undefined>;
  /** Reads the list again, all pages; one reading serves all who ask meanwhile. Never rejects. */
  refresh(): Promise<void>;
  /** The list has changed: what is known is worth nothing. */
  invalidate(): void;
  /** Takes note of a page and gives the form of it that a legacy client can read; undefined when that is the same. */
  toLegacyPage(message: Message): Buffer | undefined;
}

/** What a table needs of the bridge. */
export interface ToolCacheDeps {
  /** Whether the upstream compares headers with bodies, as it does over HTTP. */
  readonly validatesHeaders: boolean;
  /** Asks for one page; undefined when the upstream has none to give. */
  readonly readPage: (cursor: string | undefined) => Promise<Message | undefined>;
  /** The list could not be read, or a tool must be kept from clients: for the log. */
  readonly onError: (error: GatewayError) => void;
}

const maxPages = 100;

/** Makes the table of one session. */
export function createToolCache(deps: ToolCacheDeps): ToolCache {
  let tools = new Map<string, ToolFacts>();
  let isComplete = false;
  let reading: Promise<void> | undefined;

  async function read(): Promise<void> {
    const found = new Map<string, ToolFacts>();
    let cursor: string | undefined;
    for (let page = 0; page < maxPages; page++) {
      const answer = await deps.readPage(cursor);
      if (answer?.kind !== "result") break;
      for (const { name, facts } of toolsIn(answer)) found.set(name, facts);
      cursor = memberString(answer, "result.nextCursor");
      if (cursor === undefined) break;
    }
    tools = found;
    isComplete = true;
  }

  /** A list that cannot be had is no reason to fail a call, which will show by itself whether it can be carried out. */
  function refresh(): Promise<void> {
    reading ??= read()
      .catch((error: unknown) => {
        deps.onError(GatewayError.from(error));
      })
      .finally(() => {
        reading = undefined;
      });
    return reading;
  }

  return {
    find: (name) => (tools.has(name) || isComplete ? tools.get(name) : refresh().then(() => tools.get(name))),
    refresh,
    invalidate: () => {
      tools = new Map();
      isComplete = false;
    },
    toLegacyPage: (message) => {
      const pieces: Buffer[] = [];
      let isChanged = false;
      for (const tool of toolsIn(message)) {
        tools.set(tool.name, tool.facts);
        if (tool.problem !== undefined && deps.validatesHeaders) {
          // MCP 2026-07-28, Streamable HTTP: clients must leave such a tool out.
          const reason = `the tool ${JSON.stringify(tool.name)} is not listed: ${tool.problem}`;
          deps.onError(new GatewayError("upstream_invalid", reason));
          isChanged = true;
          continue;
        }
        isChanged ||= tool.wrapped !== undefined;
        pieces.push(tool.wrapped ?? message.bytes.subarray(tool.span.start, tool.span.end));
      }
      if (!isChanged) return undefined;
      return Buffer.concat([
        Buffer.from("["),
        ...pieces.flatMap((piece, index) => (index === 0 ? [piece] : [comma, piece])),
        Buffer.from("]"),
      ]);
    },
  };
}

const comma = Buffer.from(",");

interface ListedTool {
  readonly name: string;
  readonly span: Span;
  readonly facts: ToolFacts;
  /** What is wrong with its header annotations. */
  readonly problem: string | undefined;
  /** Its legacy form, where that is another. */
  readonly wrapped: Buffer | undefined;
}

/** The tools of a page; entries that are no tools go through untouched under no name. */
function toolsIn(message: Message): ListedTool[] {
  const { bytes, outline } = message;
  const list = spanOf(outline, "result.tools");
  if (list === undefined || typeAt(bytes, list.start) !== "array") return [];
  return [...elementsOf(bytes, list)].map((span) => toolAt(bytes, span));
}

function toolAt(bytes: Buffer, span: Span): ListedTool {
  const tool: unknown = JSON.parse(bytes.toString("utf8", span.start, span.end));
  const name: unknown = Reflect.get(Object(tool), "name");
  const output: unknown = Reflect.get(Object(tool), "outputSchema");
  const reading = parseHeaderParameters(Reflect.get(Object(tool), "inputSchema"));
  const isWrapped = needsWrapping(output);
  return {
    name: typeof name === "string" ? name : "",
    span,
    facts: { parameters: reading.ok ? reading.parameters : [], isWrapped },
    problem: reading.ok ? undefined : reading.message,
    wrapped: isWrapped
      ? changeMembers(bytes, span, new Map([["outputSchema", JSON.stringify(wrapOutputSchema(output))]]))
      : undefined,
  };
}
