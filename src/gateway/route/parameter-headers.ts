import { Cancellation } from "../../core/cancellation.ts";
import {
  createExchange,
  type Exchange,
  type Principal,
  type SetTimer,
  type TransportContext,
} from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { type HeaderParameter, parseHeaderParameters } from "../../protocol/http/header-parameters.ts";
import { memberSource, memberString, memberValue } from "../../protocol/json/read.ts";
import type { Message, RequestMessage } from "../../protocol/message.ts";
import { parseSingle } from "../../protocol/parse.ts";
import { GatewayError } from "../../errors.ts";
import {
  checkParameterHeaders,
  mirroredHeadersOf,
  replaceMirroredHeaders,
} from "../../protocol/http/mirrored-headers.ts";

/**
 * Knows which tool arguments are repeated in `Mcp-Param-*` headers, from the upstream's tool list. Where the upstream sees
 * no headers, the gateway must compare them (MCP 2026-07-28, Streamable HTTP).
 */
export interface ToolHeaders {
  /** The header parameters of a tool as a principal last saw it; undefined while its schema is unknown. */
  known(principal: Principal, tool: string): readonly HeaderParameter[] | undefined;
  /** Whether the list was read so recently that an unlisted tool need not be looked up again. */
  isFresh(exchange: Exchange): boolean;
  /** Reads all pages of the tool list on behalf of this exchange. Concurrent calls share one reading. */
  refresh(exchange: Exchange): Promise<void>;
}

interface ToolTable {
  readonly tools: ReadonlyMap<string, readonly HeaderParameter[]>;
  /** Monotonic milliseconds. */
  readonly readAt: number;
}

/** Calls of unlisted tools must not each read the list. */
const freshMs = 1000;

/** For how many principals the list is kept; the least recently read is dropped first. */
const maxTables = 1000;
const maxPages = 100;

/** The JSON text of a tool as its server wrote it; undefined where clients see it the same way. */
export type OwnDefinition = (principal: Principal, tool: string) => string | undefined;

/**
 * Creates the table of header parameters for one route; `ask` sends a request of the gateway upstream, which no other
 * timeout covers. Arguments that clients do not see have headers too: the server gets those of its own definition.
 */
export function createToolHeaders(
  ask: (exchange: Exchange) => Promise<Reply>,
  limit: { readonly setTimer: SetTimer; readonly quickMs: () => number },
  definitionOf: OwnDefinition = () => undefined,
): ToolHeaders {
  const tables = new Map<string, ToolTable>();
  const readings = new Map<string, Promise<void>>();
  let requests = 0;

  async function read(exchange: Exchange): Promise<void> {
    const tools = new Map<string, readonly HeaderParameter[]>();
    const isRead = await readInto(tools, exchange);
    const key = exchange.principal.id;
    // A failed reading does not replace what is known.
    const kept = isRead ? tools : (tables.get(key)?.tools ?? tools);
    tables.delete(key);
    tables.set(key, { tools: kept, readAt: exchange.timing.startedAt });
    const [oldest] = tables.keys();
    if (tables.size > maxTables && oldest !== undefined) tables.delete(oldest);
  }

  async function readInto(tools: Map<string, readonly HeaderParameter[]>, exchange: Exchange): Promise<boolean> {
    let cursor: string | undefined;
    for (let page = 0; page < maxPages; page++) {
      const message = listRequest(exchange, `headgate-tools-${++requests}`, cursor);
      if (message === undefined) return false;
      const cancellation = new Cancellation();
      const stop = limit.setTimer(limit.quickMs(), () => cancellation.cancel("timeout"));
      const asked = ask(createExchange({ ...exchange, message, parent: exchange, cancellation, reply: undefined }));
      const { message: answer } = await asked.finally(stop);
      if (answer?.kind !== "result") return false;
      addTools(tools, memberValue(answer, "result.tools"), (name) => definitionOf(exchange.principal, name));
      cursor = memberString(answer, "result.nextCursor");
      if (cursor === undefined) break;
    }
    return true;
  }

  return {
    known: (principal, tool) => tables.get(principal.id)?.tools.get(tool),
    isFresh: ({ principal, timing }) => {
      const table = tables.get(principal.id);
      return table !== undefined && timing.startedAt - table.readAt < freshMs;
    },
    refresh: (exchange) => {
      const key = exchange.principal.id;
      let reading = readings.get(key);
      if (reading === undefined) {
        reading = read(exchange).finally(() => {
          readings.delete(key);
        });
        readings.set(key, reading);
      }
      return reading;
    },
  };
}

/** A tool list request with the metadata of the request that caused it. */
function listRequest(exchange: Exchange, id: string, cursor: string | undefined): Message | undefined {
  const meta = memberSource(exchange.message, "params._meta");
  if (meta === undefined) return undefined;
  const place = cursor === undefined ? "" : `"cursor":${JSON.stringify(cursor)},`;
  const text = `{"jsonrpc":"2.0","id":"${id}","method":"tools/list","params":{${place}"_meta":${meta}}}`;
  return parseSingle(text, { revision: exchange.revision, mode: "observe" });
}

function addTools(
  table: Map<string, readonly HeaderParameter[]>,
  tools: unknown,
  definitionOf: (tool: string) => string | undefined,
): void {
  if (!Array.isArray(tools)) return;
  for (const tool of tools) {
    if (typeof tool !== "object" || tool === null) continue;
    const name: unknown = Reflect.get(tool, "name");
    if (typeof name !== "string") continue;
    const own = definitionOf(name);
    const definition: unknown = own === undefined ? tool : JSON.parse(own);
    const reading = parseHeaderParameters(Reflect.get(Object(definition), "inputSchema"));
    // A tool with invalid annotations has no headers to compare.
    table.set(name, reading.ok ? reading.parameters : []);
  }
}

/** The header parameters of an upstream, and whether it compares headers itself. */
export interface ParameterFacts {
  readonly tools: ToolHeaders;
  readonly upstreamSeesHeaders: boolean;
  /** Whether headers are sent, so that changed arguments need changed ones. */
  readonly sendsHeaders: boolean;
}

/**
 * Whether the parameter headers of a modern tool call need work before it is sent: its arguments were changed on the way,
 * or a policy decides on the route, and the upstream must see nothing that the policy did not.
 */
export function needsParameterHeaders(exchange: Exchange, facts: ParameterFacts, isGuarded: boolean): boolean {
  const { message, original, era, transport } = exchange;
  if (era !== "modern" || message.kind !== "request" || message.method !== "tools/call") return false;
  if (transport.type !== "http") return false;
  const isChanged =
    message !== original &&
    facts.sendsHeaders &&
    memberSource(message, "params.arguments") !== memberSource(original, "params.arguments");
  return isChanged || (isGuarded && (!facts.upstreamSeesHeaders || hasParameters(transport)));
}

/**
 * The exchange with headers that match its message. Received headers must match the received body (MCP 2026-07-28,
 * Streamable HTTP); changed arguments get new ones, computed from the tool's schema.
 */
export async function withParameterHeaders(
  exchange: Exchange,
  facts: ParameterFacts,
  isGuarded: boolean,
): Promise<Exchange> {
  const { message, original, transport } = exchange;
  if (message.kind !== "request" || original.kind !== "request" || transport.type !== "http") return exchange;
  const received = transport.headers;
  if (isGuarded) {
    const expected = await parametersOf(exchange, original, facts.tools);
    const mismatch = checkParameterHeaders(original, expected, (name) => received[name], "refused");
    if (mismatch !== undefined) throw new GatewayError("header_mismatch", mismatch.message);
  }
  if (message === original || !facts.sendsHeaders) return exchange;
  const parameters = await parametersOf(exchange, message, facts.tools);
  const computed = mirroredHeadersOf(message, exchange.revision, parameters);
  if (!computed.ok) throw new GatewayError("invalid_params", computed.message);
  const own = computed.headers.filter(([name]) => name.startsWith("Mcp-Param-"));
  const lines = replaceMirroredHeaders(Object.entries(received), own, parameters);
  const headers = Object.fromEntries(lines.map(([name, value]) => [name.toLowerCase(), value]));
  // From here on the headers belong to the changed message.
  return { ...exchange, original: message, transport: { ...transport, headers } };
}

async function parametersOf(
  exchange: Exchange,
  message: RequestMessage,
  tools: ToolHeaders,
): Promise<readonly HeaderParameter[]> {
  const name = memberString(message, "params.name") ?? "";
  const known = tools.known(exchange.principal, name);
  if (known !== undefined) return known;
  if (!tools.isFresh(exchange)) await tools.refresh(exchange);
  return tools.known(exchange.principal, name) ?? [];
}

function hasParameters({ headers }: TransportContext & { readonly type: "http" }): boolean {
  for (const name in headers) if (name.startsWith("mcp-param-")) return true;
  return false;
}
