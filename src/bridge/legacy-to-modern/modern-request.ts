import { GatewayError } from "../../errors.ts";
import { type Capabilities, methodFacts } from "../../protocol/methods.ts";
import type { LoggingLevel } from "../../protocol/envelope.ts";
import { type Span, spanOf } from "../../protocol/json/outline.ts";
import { memberType } from "../../protocol/json/read.ts";
import type { Message, RequestId, RequestMessage } from "../../protocol/message.ts";
import { newestModern } from "../../protocol/revisions.ts";
import { editMessage, insertedMembers, type InsertedMember } from "../../protocol/message-edit.ts";
import { changeMembers } from "../../protocol/json/edit.ts";
import { synthesizeRequest } from "../synthesize.ts";
import { createExchange } from "../../core/exchange.ts";
import type { Exchange, ReplyStream, TransportContext } from "../../core/exchange.ts";
import { type HeaderLine, mirroredHeadersOf } from "../../protocol/http/mirrored-headers.ts";
import type { ToolFacts } from "./tool-cache.ts";

/** What every request upstream says of the client, because nothing else does (MCP 2026-07-28, Lifecycle). */
export interface ClientEnvelope {
  /** What the client can be asked, in the words of the modern era. */
  readonly capabilities: Capabilities;
  /** As the client named itself: the text of a JSON object. */
  readonly clientInfo: string | undefined;
  /** The level that the client set for its session, if it has. */
  readonly logLevel: LoggingLevel | undefined;
}

/** What a repeated request brings along (MCP 2026-07-28, Multi Round-Trip Requests). */
export interface RetryInput {
  /** The text of a JSON object: answers by the keys of the questions. */
  readonly inputResponses: string | undefined;
  /** The JSON string as the server wrote it, byte for byte. */
  readonly requestState: string | undefined;
}

const prefix = "io.modelcontextprotocol/";

/**
 * The modern form of a legacy request: the same method and parameters under another id, with the envelope in `_meta`
 * beside whatever stood there. Answers to questions are ours alone to give, so that a client cannot slip any past the
 * place where they are judged.
 */
export function toModernRequest(
  message: RequestMessage,
  id: RequestId,
  envelope: ClientEnvelope,
  input: RetryInput | undefined,
): RequestMessage {
  const { bytes, outline, method } = message;
  const params = spanOf(outline, "params");
  const meta = spanOf(outline, "params._meta");
  if (meta !== undefined && memberType(message, "params._meta") !== "object") {
    throw new GatewayError("invalid_params", "params._meta must be an object");
  }
  if (input === undefined && meta === undefined && params !== undefined && isUnmarked(message)) {
    const quick = withEnvelope(message, id, params, envelope);
    if (quick !== undefined) return quick;
  }
  const keys = envelopeMembers(envelope);
  const changes = new Map<string, string | Buffer | undefined>([
    ["_meta", meta === undefined ? objectText(keys) : changeMembers(bytes, meta, keys)],
  ]);
  if (methodFacts(method)?.inputRequired === true) {
    changes.set("inputResponses", input?.inputResponses);
    changes.set("requestState", input?.requestState);
  }
  // Tasks of 2025-11-25 are not those of the extension, and none were offered.
  if (method === "tools/call") changes.set("task", undefined);
  const edited = params === undefined ? objectText(changes) : changeMembers(bytes, params, changes);
  return synthesizeRequest(
    changeMembers(
      bytes,
      outline,
      new Map<string, string | Buffer>([
        ["id", id.json],
        ["params", edited],
      ]),
    ),
  );
}

/** Whether nothing in a request must go before it is modern. */
function isUnmarked({ outline, diagnostics }: RequestMessage): boolean {
  return (
    diagnostics.length === 0 &&
    spanOf(outline, "params.inputResponses") === undefined &&
    spanOf(outline, "params.requestState") === undefined &&
    spanOf(outline, "params.task") === undefined
  );
}

/** The way of most requests: another id, and the envelope in front of the other parameters. */
function withEnvelope(
  message: RequestMessage,
  id: RequestId,
  params: Span,
  envelope: ClientEnvelope,
): RequestMessage | undefined {
  const old = spanOf(message.outline, "id");
  const at = params.start + 1;
  // An empty object would need no comma; and members usually come in the order of the specification.
  if (old === undefined || old.end > at || message.bytes[at] !== quote) return undefined;
  const { bytes, members } = prefixFor(envelope);
  const edits = [
    { span: old, bytes: Buffer.from(id.json) },
    { span: { start: at, end: at }, bytes, members },
  ];
  return editMessage(message, edits, { id });
}

const quote = 0x22;

interface EnvelopePrefix {
  readonly clientInfo: string | undefined;
  readonly logLevel: LoggingLevel | undefined;
  readonly bytes: Buffer;
  readonly members: readonly InsertedMember[];
}

const prefixes = new WeakMap<Capabilities, EnvelopePrefix>();

/** The envelope as the first of several members; the same for every request of a client. */
function prefixFor(envelope: ClientEnvelope): EnvelopePrefix {
  const { capabilities, clientInfo, logLevel } = envelope;
  let front = prefixes.get(capabilities);
  if (front === undefined || front.clientInfo !== clientInfo || front.logLevel !== logLevel) {
    const text = `"_meta":${objectText(envelopeMembers(envelope))},`;
    front = { clientInfo, logLevel, bytes: Buffer.from(text), members: insertedMembers(text, "params") };
    prefixes.set(capabilities, front);
  }
  return front;
}

/** A request of our own on behalf of the client; `members` is the text of its parameters besides `_meta`. */
export function createGatewayRequest(
  id: RequestId,
  method: string,
  members: readonly string[],
  envelope: ClientEnvelope,
): RequestMessage {
  const params = [...members, `"_meta":${objectText(envelopeMembers(envelope))}`].join(",");
  return synthesizeRequest(`{"jsonrpc":"2.0","id":${id.json},"method":${JSON.stringify(method)},"params":{${params}}}`);
}

/** The same client says the same of itself in every request. */
const written = new WeakMap<Capabilities, string>();

function capabilitiesText(capabilities: Capabilities): string {
  let text = written.get(capabilities);
  if (text === undefined) {
    text = JSON.stringify(capabilities);
    written.set(capabilities, text);
  }
  return text;
}

function envelopeMembers({ capabilities, clientInfo, logLevel }: ClientEnvelope): Map<string, string | undefined> {
  return new Map([
    [`${prefix}protocolVersion`, JSON.stringify(newestModern)],
    [`${prefix}clientCapabilities`, capabilitiesText(capabilities)],
    [`${prefix}clientInfo`, clientInfo],
    [`${prefix}logLevel`, logLevel === undefined ? undefined : JSON.stringify(logLevel)],
  ]);
}

function objectText(members: ReadonlyMap<string, string | Buffer | undefined>): string {
  const list = [...members].flatMap(([name, value]) =>
    value === undefined ? [] : [`${JSON.stringify(name)}:${String(value)}`],
  );
  return `{${list.join(",")}}`;
}

/**
 * The exchange of a modern message that a legacy exchange leads to: nobody's session, tracked by nobody else, and
 * without parameter headers that the client sent, which mean nothing in its era.
 */
export function toModernExchange(exchange: Exchange, message: Message): Exchange {
  return createExchange({
    ...exchange,
    message,
    revision: newestModern,
    session: undefined,
    transport: withHeaders(exchange.transport, none),
    parent: undefined,
  });
}

/** The headers that repeat arguments of a tool call, as the tool's schema marks them. */
export function parameterHeaders(message: RequestMessage, tool: ToolFacts | undefined): readonly HeaderLine[] {
  if (tool === undefined || tool.parameters.length === 0) return none;
  const mirrored = mirroredHeadersOf(message, newestModern, tool.parameters);
  if (!mirrored.ok) throw new GatewayError("invalid_params", mirrored.message);
  return mirrored.headers.filter(([name]) => name.startsWith("Mcp-Param-"));
}

const none: readonly HeaderLine[] = [];

/** The client's stream for a modern answer, which cannot be taken up again once it is broken. */
export function withoutPause(reply: ReplyStream | undefined): ReplyStream | undefined {
  return reply === undefined ? undefined : new UnpausedReply(reply);
}

/** A class, because one is made for every request and most are never written to. */
class UnpausedReply implements ReplyStream {
  readonly #reply: ReplyStream;

  constructor(reply: ReplyStream) {
    this.#reply = reply;
  }

  open(): void {
    this.#reply.open();
  }

  write(message: Message): void | Promise<void> {
    return this.#reply.write(message);
  }

  writeRaw(data: Buffer, event: string | undefined): void | Promise<void> {
    return this.#reply.writeRaw?.(data, event);
  }
}

function hasParameters(headers: Readonly<Record<string, string>>): boolean {
  for (const name in headers) if (name.startsWith("mcp-param-")) return true;
  return false;
}

/** How a message came, with these parameter headers instead of any that were there. */
export function withHeaders(transport: TransportContext, lines: readonly HeaderLine[]): TransportContext {
  if (lines.length === 0 && (transport.type !== "http" || !hasParameters(transport.headers))) return transport;
  const received = transport.type === "http" ? Object.entries(transport.headers) : [];
  const headers = Object.fromEntries([
    ...received.filter(([name]) => !name.startsWith("mcp-param-")),
    ...lines.map(([name, value]) => [name.toLowerCase(), value] as const),
  ]);
  return transport.type === "http" ? { ...transport, headers } : { type: "http", method: "POST", path: "", headers };
}
