import { GatewayError } from "../../errors.ts";
import type { Exchange } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { type Span, spanOf } from "../../protocol/json/outline.ts";
import { elementsOf, memberInteger, membersOf, memberType, memberValue, typeAt } from "../../protocol/json/read.ts";
import { memberSpan, type Replacement, splice } from "../../protocol/json/edit.ts";
import type { ErrorMessage, RequestMessage, ResultMessage } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import { type ContentKind, type Revision, revisions } from "../../protocol/revisions.ts";
import { gatewayErrorMessage, resultMessage } from "../../core/reply.ts";
import { editMessage } from "../../protocol/message-edit.ts";
import { changeMembers, isEmptyObject } from "../../protocol/json/edit.ts";
import { synthesizeMessage, synthesizeResult } from "../synthesize.ts";

/** A client's request, and what is known about whoever sent it. */
export interface ClientRequest {
  readonly exchange: Exchange;
  readonly message: RequestMessage;
  readonly revision: Revision;
}

/** What a tool's result needs to be read by the client, or the page of a list. */
export interface LegacyResultOptions {
  /** The client was told that the structured content of this tool is wrapped. */
  readonly isWrapped: boolean;
  /** The `tools` of a page in their legacy form, where that is another. */
  readonly tools: Buffer | undefined;
}

const serverInfoKey = "io.modelcontextprotocol/serverInfo";

/**
 * A modern result as a legacy client reads it: under the client's own id, without what only the modern era has, and
 * with what older revisions do not know put differently. Everything else keeps its bytes.
 */
export function toLegacyResult(answer: ResultMessage, asked: ClientRequest, facts: LegacyResultOptions): ResultMessage {
  const { bytes, outline } = answer;
  const { method, id } = asked.message;
  const quick = withoutType(answer, asked, facts);
  if (quick !== undefined) return quick;
  const result = spanOf(outline, "result") ?? outline;
  const changes = new Map<string, string | Buffer | undefined>([["resultType", undefined]]);
  if (methodFacts(method)?.cacheable === true) {
    changes.set("ttlMs", undefined);
    changes.set("cacheScope", undefined);
  }
  const meta = spanOf(outline, "result._meta");
  if (meta !== undefined && memberType(answer, `result._meta.${serverInfoKey}`) !== undefined) {
    const rest = changeMembers(bytes, meta, new Map([[serverInfoKey, undefined]]));
    changes.set("_meta", isEmptyObject(rest, { start: 0, end: rest.length }) ? undefined : rest);
  }
  if (facts.tools !== undefined) changes.set("tools", facts.tools);
  if (method === "tools/call") addToolContent(answer, asked.revision, facts.isWrapped, changes);
  const messages = spanOf(outline, "result.messages");
  if (method === "prompts/get" && messages !== undefined && !supportsAllContent(asked.revision)) {
    const known = downgradePromptMessages(bytes, messages, asked.revision);
    if (known !== undefined) changes.set("messages", known);
  }
  return synthesizeResult(
    changeMembers(
      bytes,
      outline,
      new Map<string, string | Buffer>([
        ["id", id.json],
        ["result", changeMembers(bytes, result, changes)],
      ]),
    ),
  );
}

/** The way of most results: another id, and no `resultType`; undefined where more has to change. */
function withoutType(
  answer: ResultMessage,
  { message, revision }: ClientRequest,
  facts: LegacyResultOptions,
): ResultMessage | undefined {
  const { bytes, outline, diagnostics } = answer;
  const [id, type] = [spanOf(outline, "id"), spanOf(outline, "result.resultType")];
  const isOther =
    diagnostics.length > 0 ||
    facts.tools !== undefined ||
    facts.isWrapped ||
    !supportsAllContent(revision) ||
    spanOf(outline, "result._meta") !== undefined ||
    spanOf(outline, "result.structuredContent") !== undefined ||
    (methodFacts(message.method)?.cacheable === true &&
      (spanOf(outline, "result.ttlMs") !== undefined || spanOf(outline, "result.cacheScope") !== undefined));
  if (isOther || id === undefined || type === undefined) return undefined;
  const member = memberSpan(bytes, type, "resultType");
  if (member === undefined || id.end > member.start) return undefined;
  const edits = [
    { span: id, bytes: Buffer.from(message.id.json) },
    { span: member, bytes: Buffer.alloc(0) },
  ];
  return editMessage(answer, edits, { id: message.id, removed: "result.resultType" });
}

function addToolContent(
  answer: ResultMessage,
  revision: Revision,
  isWrapped: boolean,
  changes: Map<string, string | Buffer | undefined>,
): void {
  const { bytes, outline } = answer;
  const structured = spanOf(outline, "result.structuredContent");
  // Before 2026-07-28 structured content is an object, whatever the tool's schema says (MCP 2025-11-25, Tools).
  if (structured !== undefined && (isWrapped || memberType(answer, "result.structuredContent") !== "object")) {
    const value = bytes.subarray(structured.start, structured.end);
    changes.set("structuredContent", Buffer.concat([Buffer.from('{"result":'), value, Buffer.from("}")]));
  }
  const content = spanOf(outline, "result.content");
  if (content === undefined || supportsAllContent(revision)) return;
  const known = downgradeContent(bytes, content, revision);
  if (known !== undefined) changes.set("content", known);
}

/**
 * A modern error as a legacy client reads it. Errors about what only the modern era has are told in words; statuses
 * never go on, because a 404 would tell the client that its session is gone (MCP 2025-11-25, Streamable HTTP).
 */
export function toLegacyError(answer: ErrorMessage, asked: ClientRequest): Reply {
  switch (memberInteger(answer, "error.code")) {
    case -32021:
      return missingCapability(answer, asked);
    case -32020:
      throw new GatewayError("upstream_invalid", "the upstream refuses the headers that repeat the request");
    case -32022:
      throw new GatewayError("upstream_invalid", "the upstream no longer serves the revision it was asked in");
    default:
      return {
        message: synthesizeMessage(
          changeMembers(answer.bytes, answer.outline, new Map([["id", asked.message.id.json]])),
        ),
      };
  }
}

function missingCapability(answer: ErrorMessage, asked: ClientRequest): Reply {
  const data: unknown = memberValue(answer, "error.data");
  const required: unknown = Reflect.get(Object(data), "requiredCapabilities");
  const names = Object.keys(Object(required)).join(", ");
  const text = `the server needs something of the client that it has not declared: ${names === "" ? "unknown" : names}`;
  return toFailureReply(
    asked,
    new GatewayError("missing_capability", text, { details: { requiredCapabilities: required } }),
  );
}

/** What a call is answered with that cannot go on: an error that the model can read for tools, else a JSON-RPC error. */
export function toFailureReply({ exchange, message }: ClientRequest, error: GatewayError): Reply {
  if (message.method === "tools/call") {
    const result = { content: [{ type: "text", text: error.message }], isError: true };
    return { message: resultMessage(message.id, JSON.stringify(result)) };
  }
  // The codes for this belong to the modern era; to the client it is the server that cannot go on.
  return { message: gatewayErrorMessage(exchange, message.id, error, -32603) };
}

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
function supportsAllContent(revision: Revision): boolean {
  const { contentKinds } = revisions[revision];
  return Object.keys(downgrades).every((kind) => contentKinds.includes(kind as ContentKind));
}

/** A list of content blocks with those that the revision does not know turned into text; undefined when none is. */
function downgradeContent(bytes: Buffer, list: Span, revision: Revision): Buffer | undefined {
  return replaced(bytes, list, replacementsIn(bytes, list, revision));
}

/** The same for a list of prompt messages, each with one block. */
function downgradePromptMessages(bytes: Buffer, list: Span, revision: Revision): Buffer | undefined {
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
