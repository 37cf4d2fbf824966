import {
  Client,
  SSEClientTransport,
  StreamableHTTPClientTransport,
  type Transport,
} from "@modelcontextprotocol/client";
import { StdioServerTransport } from "@modelcontextprotocol/server/stdio";

import type { Gateway } from "../../src/gateway/gateway.ts";
import { newestLegacy, newestModern } from "../../src/protocol/revisions.ts";
import type { CallEra } from "../load/calls.ts";
import { openPipes } from "./lean-clients.ts";

/** How a client of the official SDK comes to a route. */
export interface Visit {
  readonly via: "streamable" | "http+sse" | "stdio";
  readonly era: CallEra;
  readonly gateway: Gateway;
  readonly origin: string;
  readonly route: string;
}

/**
 * What the bulk of the calls does not do: a client of the official SDK comes, lists, calls, hears progress, is asked
 * something, gives up on a call, and goes. Returns how many requests that were.
 */
export async function visit({ via, era, gateway, origin, route }: Visit): Promise<number> {
  const revision = era === "legacy" ? newestLegacy : newestModern;
  const client = new Client(
    { name: "soak", version: "1" },
    {
      capabilities: { elicitation: { form: {} } },
      versionNegotiation: { mode: era === "legacy" ? "legacy" : { pin: revision } },
      supportedProtocolVersions: [revision],
    },
  );
  client.setRequestHandler("elicitation/create", () => ({ action: "accept", content: { response: "Ada" } }));
  let requests = 1;
  const call = async (
    name: string,
    args: Record<string, unknown>,
    options: { readonly signal?: AbortSignal; readonly onprogress?: () => void } = {},
  ): Promise<string> => {
    requests += 1;
    const { content } = await client.callTool({ name, arguments: args }, options);
    return content[0]?.type === "text" ? content[0].text : "";
  };

  await using pipes = via === "stdio" ? openPipes(gateway, route) : undefined;
  const transport: Transport =
    pipes !== undefined
      ? // It takes any pair of streams, and only the words differ from one side to the other.
        new StdioServerTransport(pipes.fromGateway, pipes.toGateway)
      : via === "http+sse"
        ? new SSEClientTransport(new URL(`${origin}/${route}/sse`))
        : new StreamableHTTPClientTransport(new URL(`${origin}/${route}/mcp`));
  await client.connect(transport);
  const progress = countProgress(transport);
  try {
    requests += 1;
    const { tools } = await client.listTools();
    expect("a tool", String(tools.some(({ name }) => name === "test_elicitation")), "true");
    const simple = "This is a simple text response for testing.";
    for (let round = 0; round < 3; round += 1) expect("a call", await call("test_simple_text", {}), simple);

    await call("test_tool_with_progress", {}, { onprogress: () => {} });
    expect("reports of progress", String(progress()), "3");

    const answer = 'User response: action=accept, content={"response":"Ada"}';
    expect("a question", await call("test_elicitation", { message: "Who are you?" }), answer);

    const leaving = new AbortController();
    const held = call(
      "test_hold",
      { key: `${via} ${era}` },
      { signal: leaving.signal, onprogress: () => leaving.abort(new Error("no longer needed")) },
    );
    const ended = await held.catch((error: unknown) => String(error));
    expect("a call that was given up", String(ended.includes("no longer needed")), "true");
    if (transport instanceof StreamableHTTPClientTransport) await transport.terminateSession();
  } finally {
    await client.close();
  }
  return requests;
}

/**
 * Counts reports of progress as they come in. The SDK itself drops those that it reads in one piece with the result,
 * which happens whenever this process stood still for a moment.
 */
function countProgress(transport: Transport): () => number {
  let reports = 0;
  const { onmessage } = transport;
  transport.onmessage = (message, extra) => {
    if ("method" in message && message.method === "notifications/progress") reports += 1;
    onmessage?.(message, extra);
  };
  return () => reports;
}

function expect(what: string, found: string, expected: string): void {
  if (found !== expected) throw new Error(`${what}: ${expected} was expected, and ${found} came`);
}
