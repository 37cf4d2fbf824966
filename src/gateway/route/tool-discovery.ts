import { createExchange, type Exchange, withMessage } from "../../core/exchange.ts";
import { Cancellation } from "../../core/cancellation.ts";
import type { Handler, Interceptor, Reply } from "../../core/pipeline.ts";
import { errorMessage, resultMessage } from "../../core/reply.ts";
import { createRequest } from "../../core/synthesize.ts";
import { GatewayError } from "../../errors.ts";
import type { Federation } from "../../federation/federation.ts";
import { createToolIndexes, type ListedTool } from "../../federation/tool-search.ts";
import { isObject } from "../../lib/is-object.ts";
import { memberSource, memberString, memberValue } from "../../protocol/json/read.ts";
import { idFrom, type RequestMessage } from "../../protocol/message.ts";

const searchName = "search_tools";
const callName = "call_tool";
const maxFound = 50;
const maxPages = 100;

/** What clients list instead of all tools. */
const offered = [
  {
    name: searchName,
    description: `Finds tools by words and returns their definitions. Call what it finds with ${callName}.`,
    inputSchema: {
      type: "object",
      properties: {
        query: { type: "string", description: "What the tool should do." },
        limit: { type: "integer", minimum: 1, maximum: maxFound, default: 5 },
      },
      required: ["query"],
    },
    annotations: { readOnlyHint: true },
  },
  {
    name: callName,
    description: `Calls a tool that ${searchName} has found.`,
    inputSchema: {
      type: "object",
      properties: { name: { type: "string" }, arguments: { type: "object" } },
      required: ["name"],
    },
  },
] as const;

/**
 * Creates the step behind views with `discovery: search`: clients list two tools, one that finds others and one that calls
 * them. What is found is what the caller may see, because the list passes everything behind this step; a call goes on as a
 * call of the real tool, so that it is judged, limited and recorded as that.
 */
export function createToolDiscovery(federation: Federation): Interceptor {
  const indexOf = createToolIndexes();
  let requests = 0;

  async function readTools(next: Handler, exchange: Exchange): Promise<readonly ListedTool[]> {
    const meta = exchange.era === "modern" ? memberSource(exchange.message, "params._meta") : undefined;
    const tools: ListedTool[] = [];
    let cursor: string | undefined;
    for (let page = 0; page < maxPages; page++) {
      const members = [
        ...(cursor === undefined ? [] : [`"cursor":${JSON.stringify(cursor)}`]),
        ...(meta === undefined ? [] : [`"_meta":${meta}`]),
      ];
      const message = createRequest(idFrom(`headgate-search-${++requests}`), "tools/list", `{${members.join(",")}}`);
      const own = createExchange({
        ...exchange,
        id: `${exchange.id}.s${requests}`,
        message,
        cancellation: new Cancellation(),
        reply: undefined,
      });
      const { message: answer } = await next(own);
      if (answer?.kind !== "result") throw new GatewayError("upstream_unreachable", "the tools could not be listed");
      const listed: unknown = memberValue(answer, "result.tools");
      if (Array.isArray(listed)) tools.push(...listed.filter(isTool));
      cursor = memberString(answer, "result.nextCursor");
      if (cursor === undefined) break;
    }
    return tools;
  }

  async function search(next: Handler, exchange: Exchange, message: RequestMessage): Promise<Reply> {
    const { query, limit } = Object(memberValue(message, "params.arguments")) as Readonly<Record<string, unknown>>;
    if (typeof query !== "string") return invalid(message, `${searchName} needs a text in \`query\``);
    const count = typeof limit === "number" && limit >= 1 ? Math.min(Math.floor(limit), maxFound) : 5;
    const tools = indexOf(await readTools(next, exchange)).search(query, count);
    const modern = exchange.era === "modern" ? { resultType: "complete" } : {};
    const content = [{ type: "text", text: JSON.stringify(tools) }];
    return { message: resultMessage(message.id, JSON.stringify({ ...modern, content, structuredContent: { tools } })) };
  }

  async function list(next: Handler, exchange: Exchange): Promise<Reply> {
    const reply = await next(exchange);
    if (reply.message?.kind !== "result") return reply;
    const { nextCursor: _cursor, ...result } = Object(memberValue(reply.message, "result")) as Readonly<
      Record<string, unknown>
    >;
    return { ...reply, message: resultMessage(reply.message.id, JSON.stringify({ ...result, tools: offered })) };
  }

  function call(next: Handler, exchange: Exchange, message: RequestMessage): Promise<Reply> {
    const given: unknown = memberValue(message, "params.arguments");
    const { name, arguments: args = {} } = isObject(given) ? given : {};
    if (typeof name !== "string" || !isObject(args) || name === callName || name === searchName)
      return Promise.resolve(
        invalid(message, `${callName} needs the \`name\` of a tool and an object of \`arguments\``),
      );
    const params = Object(memberValue(message, "params")) as Readonly<Record<string, unknown>>;
    const real = createRequest(message.id, "tools/call", JSON.stringify({ ...params, name, arguments: args }));
    return next(withMessage(exchange, real));
  }

  return (next) => (exchange) => {
    const { message, direction } = exchange;
    if (direction !== "client-to-server" || message.kind !== "request") return next(exchange);
    const isList = message.method === "tools/list";
    if (!isList && message.method !== "tools/call") return next(exchange);
    if (federation.viewOf(exchange)?.discovery !== "search") return next(exchange);
    if (isList) return list(next, exchange);
    const name = memberString(message, "params.name");
    if (name === searchName) return search(next, exchange, message);
    return name === callName ? call(next, exchange, message) : next(exchange);
  };
}

function isTool(value: unknown): value is ListedTool {
  return isObject(value) && typeof value["name"] === "string";
}

function invalid({ id }: RequestMessage, problem: string): Reply {
  return { message: errorMessage(id, { code: -32602, message: problem }) };
}
