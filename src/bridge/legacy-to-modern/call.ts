import type { Cancellation } from "../../core/cancellation.ts";
import { delayUnlessCancelled, untilCancelled } from "../../transports/transport.ts";
import type { Exchange, SetTimer } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { gatewayErrorMessage, resultMessage } from "../../core/reply.ts";
import { synthesizeMessage, synthesizeResult } from "../../core/synthesize.ts";
import { GatewayError } from "../../errors.ts";
import { isPromise } from "../../lib/is-promise.ts";
import { changeMembers, isEmptyObject, type Replacement, splice } from "../../protocol/json/edit.ts";
import { type Span, spanOf } from "../../protocol/json/outline.ts";
import {
  elementsOf,
  memberInteger,
  membersOf,
  memberSource,
  memberString,
  memberType,
  memberValue,
  typeAt,
} from "../../protocol/json/read.ts";
import type { ErrorMessage, RequestMessage, ResultMessage } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import { type ContentKind, type Revision, revisions } from "../../protocol/revisions.ts";
import { type InputRequester, parseInputRequests } from "./input-requests.ts";
import type { RetryInput } from "./modern-request.ts";
import type { ToolCache, ToolFacts } from "./tool-cache.ts";

/** A request of the client while it runs; it may take several requests upstream. */
export interface ClientCall extends ClientRequest {
  /** Ends the call, upstream and at the client. */
  readonly cancellation: Cancellation;
  /** Its current request upstream. */
  upstream?: Exchange;
}

/** Bounds of one call. */
export interface RoundTripLimits {
  /** How often the server may ask for input before the call fails. */
  readonly maxRounds: number;
  /** How many input requests one round may have. */
  readonly maxInputRequests: number;
  /** How long to wait before repeating a request whose server sent a state but asked for no input. */
  readonly paceMs: number;
}

export interface ClientCallDeps {
  readonly limits: RoundTripLimits;
  readonly setTimer: SetTimer;
  readonly inputRequester: InputRequester;
  readonly tools: ToolCache;
  /** Sends the request in its modern form, with the headers that the tool requires. */
  readonly send: (call: ClientCall, input: RetryInput | undefined, tool: ToolFacts | undefined) => Promise<Reply>;
}

/**
 * Runs a legacy request to its answer: asks the client for the input that the server wants, and repeats the request
 * with it until the result is complete (MCP 2026-07-28, Multi Round-Trip Requests).
 */
export async function runCall(call: ClientCall, deps: ClientCallDeps): Promise<Reply> {
  const { limits, tools } = deps;
  const name = call.message.method === "tools/call" ? memberString(call.message, "params.name") : undefined;
  const found = name === undefined ? undefined : tools.find(name);
  let tool = isPromise(found) ? await untilCancelled(call.cancellation, found) : found;
  let input: RetryInput | undefined;
  let hasRefreshedTools = false;
  for (let round = 0; ;) {
    const { message: answer } = await deps.send(call, input, tool);
    if (answer?.kind === "error") {
      if (name === undefined || hasRefreshedTools || memberInteger(answer, "error.code") !== -32020) {
        return toLegacyError(answer, call);
      }
      // Header mismatch: the tool's schema has changed. Nothing was executed, so the request can be sent again.
      hasRefreshedTools = true;
      await untilCancelled(call.cancellation, tools.refresh());
      tool = await tools.find(name);
      continue;
    }
    if (answer?.kind !== "result") {
      throw new GatewayError("upstream_invalid", "the upstream's answer is not a response to the request");
    }
    const type = resultTypeOf(answer);
    if (type === "complete") {
      const page = call.message.method === "tools/list" ? tools.toLegacyPage(answer) : undefined;
      return { message: toLegacyResult(answer, call, { isWrapped: tool?.isWrapped === true, tools: page }) };
    }
    if (type !== "input_required" || methodFacts(call.message.method)?.inputRequired !== true) {
      throw new GatewayError("upstream_invalid", `the client's revision has no results of type ${type}`);
    }
    if (++round > limits.maxRounds) {
      const text = `the server asked for input more than ${limits.maxRounds} times`;
      return toFailureReply(call, new GatewayError("upstream_invalid", text));
    }
    const outcome = await collectInput(call, answer, deps);
    if (outcome instanceof GatewayError) return toFailureReply(call, outcome);
    input = outcome;
  }
}

/** Gets the client's answers to the input requests of one round, or why the call cannot continue. */
async function collectInput(
  { exchange, cancellation }: ClientCall,
  answer: ResultMessage,
  { limits, inputRequester, setTimer }: ClientCallDeps,
): Promise<RetryInput | GatewayError> {
  const requests = parseInputRequests(answer);
  const hasState = memberType(answer, "result.requestState") === "string";
  const requestState = hasState ? memberSource(answer, "result.requestState") : undefined;
  if (requests === undefined) return new GatewayError("upstream_invalid", "the server sent an invalid input request");
  if (requests.length > limits.maxInputRequests) {
    const text = `the server sent more than ${limits.maxInputRequests} input requests at once`;
    return new GatewayError("upstream_invalid", text);
  }
  if (requests.length > 0) {
    const outcome = await inputRequester.request(exchange, cancellation, requests);
    return outcome.ok ? { inputResponses: outcome.responses, requestState } : outcome.error;
  }
  if (requestState === undefined) {
    return new GatewayError("upstream_invalid", "the server asked for input without input requests or a state");
  }
  await delayUnlessCancelled(cancellation, limits.paceMs, setTimer);
  return { inputResponses: undefined, requestState };
}

/** A result without a type is complete. */
function resultTypeOf(answer: ResultMessage): string {
  const type = memberType(answer, "result.resultType");
  if (type === undefined) return "complete";
  return memberString(answer, "result.resultType") ?? type;
}

/** A client's request and the client's revision. */
interface ClientRequest {
  readonly exchange: Exchange;
  readonly message: RequestMessage;
  readonly revision: Revision;
}

/** What the legacy form of a result depends on besides its request. */
interface LegacyResultOptions {
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
function toLegacyResult(
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
  if (request.method === "prompts/get") downgrade("messages", promptBlocks(bytes, spanOf(outline, "result.messages")));
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
function toLegacyError(error: ErrorMessage, request: ClientRequest): Reply {
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

/** The reply to a call that cannot continue: a tool error for the model to read, or a JSON-RPC error. */
function toFailureReply({ exchange, message }: ClientRequest, error: GatewayError): Reply {
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
