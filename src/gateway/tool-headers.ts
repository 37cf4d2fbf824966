import { Cancellation } from "../exchange.ts";
import type { Exchange, Principal } from "../exchange.ts";
import type { Reply } from "../pipeline.ts";
import { parseHeaderParameters } from "../protocol/header-parameters.ts";
import type { HeaderParameter } from "../protocol/header-parameters.ts";
import { memberSource, memberString, memberValue } from "../protocol/json/read.ts";
import type { Message } from "../protocol/message.ts";
import { parseText } from "../protocol/parse.ts";

/**
 * Knows which arguments of a tool are repeated in `Mcp-Param-*` headers, from the upstream's own tool list. For
 * upstreams that see no headers: there it is the gateway that must compare them (MCP 2026-07-28, Streamable HTTP).
 */
export interface ToolHeaders {
  /** The parameters of a tool as a principal last saw it; undefined when its schema is not known. */
  known(principal: Principal, tool: string): readonly HeaderParameter[] | undefined;
  /** Whether the list was read just now, so that a tool which is not on it need not be looked for again. */
  isFresh(exchange: Exchange): boolean;
  /** Reads the tool list, all pages, for whoever sends this exchange; one reading serves all who ask meanwhile. */
  refresh(exchange: Exchange): Promise<void>;
}

interface ToolTable {
  readonly tools: ReadonlyMap<string, readonly HeaderParameter[]>;
  /** Monotonic milliseconds. */
  readonly readAt: number;
}

/** Calls of a tool that is on no list must not have the list read once for each of them. */
const freshMs = 1000;

/** Principals whose lists are kept; the longest unused goes first. */
const maxTables = 1000;
const maxPages = 100;

/** Makes the table of header parameters for one route; `ask` sends a request of ours upstream. */
export function createToolHeaders(ask: (exchange: Exchange) => Promise<Reply>): ToolHeaders {
  const tables = new Map<string, ToolTable>();
  const readings = new Map<string, Promise<void>>();
  let requests = 0;

  async function read(exchange: Exchange): Promise<void> {
    const tools = new Map<string, readonly HeaderParameter[]>();
    const isRead = await readInto(tools, exchange);
    const key = exchange.principal.id;
    // What could not be read does not take the place of what is known.
    const kept = isRead ? tools : (tables.get(key)?.tools ?? tools);
    tables.delete(key);
    tables.set(key, { tools: kept, readAt: exchange.timing.startedAt });
    const [oldest] = tables.keys();
    if (tables.size > maxTables && oldest !== undefined) tables.delete(oldest);
  }

  async function readInto(
    tools: Map<string, readonly HeaderParameter[]>,
    exchange: Exchange,
  ): Promise<boolean> {
    let cursor: string | undefined;
    for (let page = 0; page < maxPages; page++) {
      const message = listRequest(exchange, `headgate-tools-${++requests}`, cursor);
      if (message === undefined) return false;
      const { message: answer } = await ask({
        ...exchange,
        id: `${exchange.id}.${requests}`,
        message,
        original: message,
        cancellation: new Cancellation(),
        tracking: { entry: undefined },
        reply: undefined,
      });
      if (answer?.kind !== "result") return false;
      addTools(tools, memberValue(answer, "result.tools"));
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

/** A tool list request with the metadata of the request on whose behalf it is made. */
function listRequest(exchange: Exchange, id: string, cursor: string | undefined): Message | undefined {
  const meta = memberSource(exchange.message, "params._meta");
  if (meta === undefined) return undefined;
  const place = cursor === undefined ? "" : `"cursor":${JSON.stringify(cursor)},`;
  const text = `{"jsonrpc":"2.0","id":"${id}","method":"tools/list","params":{${place}"_meta":${meta}}}`;
  const outcome = parseText(text, { revision: exchange.revision, mode: "observe" });
  return outcome.ok && outcome.form === "single" ? outcome.message : undefined;
}

function addTools(table: Map<string, readonly HeaderParameter[]>, tools: unknown): void {
  if (!Array.isArray(tools)) return;
  for (const tool of tools) {
    if (typeof tool !== "object" || tool === null) continue;
    const name: unknown = Reflect.get(tool, "name");
    const reading = parseHeaderParameters(Reflect.get(tool, "inputSchema"));
    // A tool with invalid annotations has no headers to compare; whether it may be listed is not decided here.
    if (typeof name === "string") table.set(name, reading.ok ? reading.parameters : []);
  }
}
