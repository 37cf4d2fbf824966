import type { Exchange } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { gatewayErrorMessage, resultMessage } from "../../core/reply.ts";
import { GatewayError } from "../../errors.ts";
import { changeMembers, isEmptyObject, type Replacement, splice } from "../../protocol/json/edit.ts";
import { type Span, spanOf } from "../../protocol/json/outline.ts";
import { elementsOf, memberInteger, membersOf, memberType, memberValue, typeAt } from "../../protocol/json/read.ts";
import type { ErrorMessage, RequestMessage, ResultMessage } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import { type ContentKind, type Revision, revisions } from "../../protocol/revisions.ts";
import { synthesizeMessage, synthesizeResult } from "../../core/synthesize.ts";

/** A client's request and the client's revision. */
export interface ClientRequest {
  readonly exchange: Exchange;
  readonly message: RequestMessage;
  readonly revision: Revision;
}

/** What the legacy form of a result depends on besides its request. */
export interface LegacyResultOptions {
  /** Whether the tool's output schema was shown to the client wrapped as `{ result }`. */
  readonly isWrapped: boolean;
  /** The legacy form of a page of `tools`, where it differs. */
  readonly tools: Buffer | undefined;
}

const serverInfoKey = "io.modelcontextprotocol/serverInfo";

/**
 * A modern result in its legacy form: under the client's id, without modern members, and with content that the client's
 * revision lacks turned into text. Everything else keeps its bytes.
 */
export function toLegacyResult(
  result: ResultMessage,
  { message: request, revision }: ClientRequest,
  { isWrapped, tools }: LegacyResultOptions,
): ResultMessage {
  const { bytes, outline } = result;
  const changes = new Map<string, string | Buffer | undefined>([["resultType", undefined]]);
  if (methodFacts(request.method)?.cacheable === true) {
    changes.set("ttlMs", undefined);
    changes.set("cacheScope", undefined);
  }
  const meta = spanOf(outline, "result._meta");
  if (meta !== undefined && memberType(result, `result._meta.${serverInfoKey}`) !== undefined) {
    const rest = changeMembers(bytes, meta, new Map([[serverInfoKey, undefined]]));
    changes.set("_meta", isEmptyObject(rest, { start: 0, end: rest.length }) ? undefined : rest);
  }
  if (tools !== undefined) changes.set("tools", tools);
  if (request.method === "tools/call") {
    const structured = spanOf(outline, "result.structuredContent");
    // Before 2026-07-28 structured content is always an object (MCP 2025-11-25, Tools).
    if (structured !== undefined && (isWrapped || memberType(result, "result.structuredContent") !== "object")) {
      const value = bytes.subarray(structured.start, structured.end);
      changes.set("structuredContent", Buffer.concat([Buffer.from('{"result":'), value, Buffer.from("}")]));
    }
    downgrade("content", contentBlocks(bytes, spanOf(outline, "result.content")));
  }
  if (request.method === "prompts/get") {
    downgrade("messages", promptBlocks(bytes, spanOf(outline, "result.messages")));
  }
  const edited = changeMembers(bytes, spanOf(outline, "result") ?? outline, changes);
  const outer = new Map<string, string | Buffer>([
    ["id", request.id.json],
    ["result", edited],
  ]);
  return synthesizeResult(changeMembers(bytes, outline, outer));

  function downgrade(member: "content" | "messages", blocks: readonly Span[]): void {
    const list = spanOf(outline, `result.${member}`);
    const replacements = blocks.flatMap((block) => downgradedBlock(bytes, block, revision) ?? []);
    if (list !== undefined && replacements.length > 0) changes.set(member, splice(bytes, list, replacements));
  }
}

/**
 * A modern error in its legacy form. Codes that only modern clients know become plain failures. HTTP statuses are
 * dropped: a legacy client takes 404 for the end of its session (MCP 2025-11-25, Streamable HTTP).
 */
export function toLegacyError(error: ErrorMessage, request: ClientRequest): Reply {
  switch (memberInteger(error, "error.code")) {
    case -32021:
      return missingCapability(error, request);
    case -32020:
      throw new GatewayError("upstream_invalid", "the upstream rejected the headers that repeat the request");
    case -32022:
      throw new GatewayError("upstream_invalid", "the upstream no longer supports the revision of the request");
    default: {
      const id = new Map([["id", request.message.id.json]]);
      return { message: synthesizeMessage(changeMembers(error.bytes, error.outline, id)) };
    }
  }
}

function missingCapability(error: ErrorMessage, request: ClientRequest): Reply {
  const data: unknown = memberValue(error, "error.data");
  const requiredCapabilities: unknown = Reflect.get(Object(data), "requiredCapabilities");
  const names = Object.keys(Object(requiredCapabilities)).join(", ");
  const text = `the server requires a client capability that was not declared: ${names === "" ? "unknown" : names}`;
  return toFailureReply(request, new GatewayError("missing_capability", text, { details: { requiredCapabilities } }));
}

/** The reply to a call that cannot go on: a tool error for the model to read, or a JSON-RPC error. */
export function toFailureReply({ exchange, message }: ClientRequest, error: GatewayError): Reply {
  if (message.method === "tools/call") {
    const result = { content: [{ type: "text", text: error.message }], isError: true };
    return { message: resultMessage(message.id, JSON.stringify(result)) };
  }
  // Legacy clients do not know the modern error codes.
  return { message: gatewayErrorMessage(exchange, message.id, error, -32603) };
}

type Block = Readonly<Record<string, unknown>>;

/** Content kinds that the first revision lacks, and the text that replaces them. */
const downgrades: Readonly<Partial<Record<ContentKind, (block: Block) => string>>> = {
  audio: ({ mimeType, data }) => {
    const size = typeof data === "string" ? Math.floor((data.length * 3) / 4) : 0;
    const type = typeof mimeType === "string" ? mimeType : "unknown type";
    return `[audio, ${type}, about ${size} bytes: this client's revision of MCP cannot carry it]`;
  },
  resource_link: ({ name, title, uri, description }) => {
    const label = [title, name].find((value) => typeof value === "string");
    const link = typeof uri === "string" ? uri : "";
    const about = typeof description === "string" ? `\n${description}` : "";
    return `${label === undefined ? link : `${label}: ${link}`}${about}`;
  },
};

function contentBlocks(bytes: Buffer, list: Span | undefined): readonly Span[] {
  return list !== undefined && typeAt(bytes, list.start) === "array" ? [...elementsOf(bytes, list)] : [];
}

/** Each prompt message holds one block. */
function promptBlocks(bytes: Buffer, messages: Span | undefined): readonly Span[] {
  return contentBlocks(bytes, messages)
    .filter(({ start }) => typeAt(bytes, start) === "object")
    .flatMap((message) => [...membersOf(bytes, message)].filter(({ name }) => name === "content"))
    .map(({ value }) => value);
}

function downgradedBlock(bytes: Buffer, block: Span, revision: Revision): Replacement | undefined {
  const { contentKinds } = revisions[revision];
  const missing = Object.entries(downgrades).filter(([kind]) => !contentKinds.includes(kind as ContentKind));
  if (missing.length === 0 || typeAt(bytes, block.start) !== "object") return undefined;
  const value = JSON.parse(bytes.toString("utf8", block.start, block.end)) as Block;
  const toText = missing.find(([kind]) => kind === value["type"])?.[1];
  if (toText === undefined) return undefined;
  return { span: block, bytes: Buffer.from(JSON.stringify({ type: "text", text: toText(value) })) };
}
