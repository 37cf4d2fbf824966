import { GatewayError } from "../errors.ts";
import type { Exchange, TransportContext } from "../exchange.ts";
import type { HeaderParameter } from "../protocol/header-parameters.ts";
import { memberSource, memberString } from "../protocol/json/read.ts";
import type { RequestMessage } from "../protocol/message.ts";
import {
  checkParameterHeaders,
  mirroredHeadersOf,
  replaceMirroredHeaders,
} from "../protocol/mirrored-headers.ts";
import type { ToolHeaders } from "./tool-headers.ts";

/** What is known of the upstream's header parameters, and whether the upstream looks at headers itself. */
export interface ParameterFacts {
  readonly tools: ToolHeaders;
  readonly upstreamSeesHeaders: boolean;
}

/**
 * Whether the headers that repeat arguments of a modern tool call need a look before it goes on: its arguments have
 * been changed on the way, or the route is guarded, and what a policy saw must be all that the upstream gets to see.
 */
export function needsParameterHeaders(
  exchange: Exchange,
  facts: ParameterFacts,
  isGuarded: boolean,
): boolean {
  const { message, original, era, transport } = exchange;
  if (era !== "modern" || message.kind !== "request" || message.method !== "tools/call") return false;
  if (transport.type !== "http") return false;
  const isChanged =
    message !== original &&
    facts.upstreamSeesHeaders &&
    memberSource(message, "params.arguments") !== memberSource(original, "params.arguments");
  return isChanged || (isGuarded && (!facts.upstreamSeesHeaders || hasParameters(transport)));
}

/**
 * The exchange with headers that fit its message. Those that came must fit the body that came (MCP 2026-07-28,
 * Streamable HTTP); where the arguments have been changed since, they are computed again from the tool's schema.
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
    const mismatch = checkParameterHeaders(original, expected, (name) => received[name]);
    if (mismatch !== undefined) throw new GatewayError("header_mismatch", mismatch.message);
  }
  if (message === original || !facts.upstreamSeesHeaders) return exchange;
  const parameters = await parametersOf(exchange, message, facts.tools);
  const computed = mirroredHeadersOf(message, exchange.revision, parameters);
  if (!computed.ok) throw new GatewayError("invalid_params", computed.message);
  const own = computed.headers.filter(([name]) => name.startsWith("Mcp-Param-"));
  const lines = replaceMirroredHeaders(Object.entries(received), own, parameters);
  const headers = Object.fromEntries(lines.map(([name, value]) => [name.toLowerCase(), value]));
  // From here on the changed message is what the headers belong to.
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
