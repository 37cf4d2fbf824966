import { GatewayError } from "../../errors.ts";
import { isObject } from "../../lib/is-object.ts";
import { type HeaderParameter, parseHeaderParameters } from "../../protocol/http/header-parameters.ts";
import { type Span, spanOf } from "../../protocol/json/outline.ts";
import { elementsOf, memberString, typeAt } from "../../protocol/json/read.ts";
import type { Message } from "../../protocol/message.ts";
import { arrayText, changeMembers } from "../../protocol/json/edit.ts";

/** What the bridge needs to know about a tool to call it. */
export interface ToolFacts {
  /** Arguments that the call repeats in headers. */
  readonly parameters: readonly HeaderParameter[];
  /** Whether clients were shown its output schema wrapped as `{ result }`. */
  readonly isWrapped: boolean;
}

/** The tools of one upstream that one client may see. */
export type ToolCache = ReturnType<typeof createToolCache>;

export interface ToolCacheDeps {
  /** Whether the upstream compares headers with bodies, as it does over HTTP. */
  readonly validatesHeaders: boolean;
  /** Requests one page. */
  readonly readPage: (cursor: string | undefined) => Promise<Message | undefined>;
  /** Called when the list could not be read, or a tool has to be hidden. */
  readonly onError: (error: GatewayError) => void;
}

const maxPages = 100;

/** Makes the cache of one session. */
export function createToolCache(deps: ToolCacheDeps) {
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

  /** A failed read does not fail the call: the server will reject it if the headers matter. */
  function refresh(): Promise<void> {
    reading ??= read()
      .catch((error: unknown) => deps.onError(GatewayError.from(error)))
      .finally(() => {
        reading = undefined;
      });
    return reading;
  }

  return {
    /** Finds a tool; reads the list first if that was not done yet. */
    find: (name: string): ToolFacts | undefined | Promise<ToolFacts | undefined> =>
      tools.has(name) || isComplete ? tools.get(name) : refresh().then(() => tools.get(name)),
    /** Reads all pages of the list again; concurrent calls share one read. Never rejects. */
    refresh,
    /** The list has changed. */
    invalidate: (): void => {
      tools = new Map();
      isComplete = false;
    },
    /** Caches a page and returns the legacy form of its `tools`; undefined when it needs no change. */
    toLegacyPage: (message: Message): Buffer | undefined => {
      const pieces: Buffer[] = [];
      let isChanged = false;
      for (const tool of toolsIn(message)) {
        tools.set(tool.name, tool.facts);
        if (tool.problem !== undefined && deps.validatesHeaders) {
          // MCP 2026-07-28, Streamable HTTP: clients must exclude such a tool.
          const reason = `the tool ${JSON.stringify(tool.name)} is hidden: ${tool.problem}`;
          deps.onError(new GatewayError("upstream_invalid", reason));
          isChanged = true;
          continue;
        }
        isChanged ||= tool.wrapped !== undefined;
        pieces.push(tool.wrapped ?? message.bytes.subarray(tool.span.start, tool.span.end));
      }
      return isChanged ? arrayText(pieces) : undefined;
    },
  };
}

interface ListedTool {
  readonly name: string;
  readonly span: Span;
  readonly facts: ToolFacts;
  /** What is wrong with its header annotations. */
  readonly problem: string | undefined;
  /** Its legacy form, where it differs. */
  readonly wrapped: Buffer | undefined;
}

/** The tools of a page; invalid entries stay in the list, without a name. */
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

type Schema = Readonly<Record<string, unknown>>;

/** Keywords whose values are data: a `$ref` in them is not a reference. */
const dataKeywords: ReadonlySet<string> = new Set(["const", "default", "enum", "examples"]);
/** Keywords that hold schemas by names of the author's choice, which may look like keywords. */
const mapKeywords: ReadonlySet<string> = new Set([
  "$defs",
  "definitions",
  "dependencies",
  "dependentSchemas",
  "patternProperties",
  "properties",
]);
const referenceKeywords: ReadonlySet<string> = new Set(["$ref", "$dynamicRef"]);

/** Whether an output schema must be wrapped for legacy clients: before 2026-07-28 its root is always an object. */
export function needsWrapping(schema: unknown): schema is Schema {
  return isObject(schema) && schema["type"] !== "object";
}

/**
 * Wraps a schema as that of `{ "result": value }`. Local references are rebased, except below an `$id`, which starts a
 * document of its own (JSON Schema 2020-12, section 8.2.1).
 */
export function wrapOutputSchema(schema: Schema): Schema {
  const { $schema } = schema;
  return {
    ...(typeof $schema === "string" ? { $schema } : {}),
    type: "object",
    properties: { result: rebase(schema) },
    required: ["result"],
  };
}

function rebase(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(rebase);
  if (!isObject(node) || isDocument(node)) return node;
  return mapValues(node, (value, keyword) => {
    if (referenceKeywords.has(keyword) && typeof value === "string") return rebaseReference(value);
    if (dataKeywords.has(keyword)) return value;
    return mapKeywords.has(keyword) && isObject(value) ? mapValues(value, rebase) : rebase(value);
  });
}

function rebaseReference(reference: string): string {
  const isLocal = reference === "#" || reference.startsWith("#/");
  return isLocal ? `#/properties/result${reference.slice(1)}` : reference;
}

/** An `$id` that is only a fragment is an anchor (draft 7) and starts no document. */
function isDocument({ $id }: Schema): boolean {
  return typeof $id === "string" && !$id.startsWith("#");
}

function mapValues(record: Schema, map: (value: unknown, key: string) => unknown): Schema {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value, key)]));
}
