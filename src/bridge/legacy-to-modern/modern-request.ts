import { createExchange, type Exchange, type ReplyStream, type TransportContext } from "../../core/exchange.ts";
import { GatewayError } from "../../errors.ts";
import type { LoggingLevel } from "../../protocol/envelope.ts";
import { type HeaderLine, mirroredHeadersOf } from "../../protocol/http/mirrored-headers.ts";
import { changeMembers, type Replacement } from "../../protocol/json/edit.ts";
import { spanOf } from "../../protocol/json/outline.ts";
import { memberType } from "../../protocol/json/read.ts";
import type { Message, RequestId, RequestMessage } from "../../protocol/message.ts";
import { type Capabilities, methodFacts } from "../../protocol/methods.ts";
import { newestModern } from "../../protocol/revisions.ts";
import { createRequest, synthesizeRequest, withReplacements } from "../../core/synthesize.ts";
import type { ToolFacts } from "./tool-cache.ts";

/** What every modern request says about its client (MCP 2026-07-28, Lifecycle). */
export interface ClientEnvelope {
  /** The client's capabilities in their modern form. */
  readonly capabilities: Capabilities;
  /** The JSON text of `clientInfo`. */
  readonly clientInfo: string | undefined;
  /** The level the client set with `logging/setLevel`. */
  readonly logLevel: LoggingLevel | undefined;
}

/** What the retry of a request adds to it (MCP 2026-07-28, Multi Round-Trip Requests). */
export interface RetryInput {
  /** The JSON text of `inputResponses`. */
  readonly inputResponses: string | undefined;
  /** The JSON string as the server wrote it, byte for byte. */
  readonly requestState: string | undefined;
}

const prefix = "io.modelcontextprotocol/";

/**
 * A legacy request in its modern form: the same method and params under another id, with the envelope added to `_meta`.
 * `inputResponses` and `requestState` of the client are removed, because only the bridge may answer input requests: a
 * client could otherwise bypass the policies that evaluate the answers.
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
  const members = envelopeMembers(envelope);
  const changes = new Map<string, string | Buffer | undefined>([
    ["_meta", meta === undefined ? objectText(members) : changeMembers(bytes, meta, members)],
  ]);
  if (methodFacts(method)?.inputRequired === true) {
    changes.set("inputResponses", input?.inputResponses);
    changes.set("requestState", input?.requestState);
  }
  // The tasks of 2025-11-25 are not those of the modern extension, and the bridge does not offer them.
  if (method === "tools/call") changes.set("task", undefined);
  if (params === undefined) {
    const outer = new Map<string, string>([
      ["id", id.json],
      ["params", objectText(changes)],
    ]);
    return synthesizeRequest(changeMembers(bytes, outline, outer));
  }
  const idSpan = spanOf(outline, "id");
  const replacements: Replacement[] = idSpan === undefined ? [] : [{ span: idSpan, bytes: Buffer.from(id.json) }];
  replacements.push({ span: params, bytes: changeMembers(bytes, params, changes) });
  return withReplacements(message, replacements);
}

/** Makes a request of the bridge on behalf of the client; `members` is the JSON text of its params. */
export function createGatewayRequest(
  id: RequestId,
  method: string,
  members: readonly string[],
  envelope: ClientEnvelope,
): RequestMessage {
  const params = [...members, `"_meta":${objectText(envelopeMembers(envelope))}`];
  return createRequest(id, method, `{${params.join(",")}}`);
}

function envelopeMembers({ capabilities, clientInfo, logLevel }: ClientEnvelope): Map<string, string | undefined> {
  return new Map([
    [`${prefix}protocolVersion`, JSON.stringify(newestModern)],
    [`${prefix}clientCapabilities`, JSON.stringify(capabilities)],
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
 * The exchange of a modern message that a legacy exchange leads to, without session and without the client's parameter
 * headers, which mean nothing in its revision.
 */
export function toModernExchange(exchange: Exchange, message: Message): Exchange {
  return createExchange({
    ...exchange,
    message,
    revision: newestModern,
    session: undefined,
    transport: replaceParameterHeaders(exchange.transport, []),
    parent: undefined,
  });
}

/** The headers that repeat arguments of a tool call, as the tool's schema requires. */
export function parameterHeaders(message: RequestMessage, tool: ToolFacts | undefined): readonly HeaderLine[] {
  if (tool === undefined || tool.parameters.length === 0) return [];
  const mirrored = mirroredHeadersOf(message, newestModern, tool.parameters);
  if (!mirrored.ok) throw new GatewayError("invalid_params", mirrored.message);
  return mirrored.headers.filter(([name]) => name.startsWith("Mcp-Param-"));
}

/** A transport context with these parameter headers in place of the client's. */
export function replaceParameterHeaders(transport: TransportContext, lines: readonly HeaderLine[]): TransportContext {
  const received = transport.type === "http" ? Object.entries(transport.headers) : [];
  const others = received.filter(([name]) => !name.startsWith("mcp-param-"));
  if (lines.length === 0 && others.length === received.length) return transport;
  const headers = Object.fromEntries([...others, ...lines.map(([name, value]) => [name.toLowerCase(), value])]);
  return transport.type === "http" ? { ...transport, headers } : { type: "http", method: "POST", path: "", headers };
}

/** The client's reply stream without `pause`: a modern response stream cannot be resumed. */
export function withoutPause(reply: ReplyStream | undefined): ReplyStream | undefined {
  if (reply === undefined) return undefined;
  return {
    open: () => reply.open(),
    write: (message, label) => reply.write(message, label),
    writeRaw: (data, event) => reply.writeRaw?.(data, event),
  };
}
