import { createParser, type EventSourceMessage } from "eventsource-parser";

import type { HttpEdge, PeerDetails } from "../../src/server-kit/http/contract.ts";

/** A raw client of the document's profile that talks to an edge without a socket. */
export interface KitClient {
  readonly response: Response;
  readonly sessionId: string;
  /** The next event; undefined when the stream is over. Rejects where it was broken off. */
  readonly next: () => Promise<EventSourceMessage | undefined>;
  /** Events up to and including the first of this name. */
  readonly until: (name: string) => Promise<EventSourceMessage[]>;
  /** Posts a message as the document's clients do: the session in header and query. */
  readonly post: (body: unknown, init?: PostInit) => Promise<Response>;
  readonly leave: () => Promise<void>;
}

/** How a post differs from the usual one. */
export interface PostInit {
  readonly headers?: Readonly<Record<string, string>>;
  readonly query?: string;
  readonly peer?: PeerDetails;
}

const origin = "http://127.0.0.1:5110";

/** Asks an edge for a path; 404 stands for a path that is not the edge's. */
export async function ask(
  edge: HttpEdge,
  path: string,
  init: RequestInit & { readonly peer?: PeerDetails } = {},
): Promise<Response> {
  const { peer, ...rest } = init;
  const given = { address: "127.0.0.1", localAddress: "127.0.0.1", httpVersion: "1.1", ...peer };
  const response = await edge.handle(new Request(origin + path, rest), given);
  return response ?? new Response(null, { status: 404 });
}

/** Opens a stream; the first two events are read already. */
export async function openKitClient(
  edge: HttpEdge,
  init: {
    readonly headers?: Record<string, string>;
    readonly query?: string;
    readonly peer?: PeerDetails;
  } = {},
): Promise<KitClient> {
  const { headers = {}, query = "", peer = {} } = init;
  const response = await ask(edge, `/mcp/sse${query}`, { headers, peer });
  if (response.body === null || response.status !== 200) {
    throw new Error(`no stream: ${response.status} ${await response.text()}`);
  }
  const reader = response.body.getReader();
  const decoder = new TextDecoder();
  const arrived: EventSourceMessage[] = [];
  const parser = createParser({ onEvent: (event) => arrived.push(event) });
  async function next(): Promise<EventSourceMessage | undefined> {
    while (arrived.length === 0) {
      const { done, value } = await reader.read();
      if (done) return undefined;
      parser.feed(decoder.decode(value, { stream: true }));
    }
    return arrived.shift();
  }
  async function until(name: string): Promise<EventSourceMessage[]> {
    const events: EventSourceMessage[] = [];
    for (let event = await next(); event !== undefined; event = await next()) {
      events.push(event);
      if (event.event === name) return events;
    }
    throw new Error(`the stream ended before ${name}: ${JSON.stringify(events)}`);
  }
  const sessionId = response.headers.get("x-mcp-session") ?? "";
  await until("connected");
  return {
    response,
    sessionId,
    next,
    until,
    post: async (
      body,
      { headers: more = {}, query: postQuery = `?sessionId=${sessionId}`, peer: postPeer = peer } = {},
    ) =>
      ask(edge, `/mcp/rpc${postQuery}`, {
        method: "POST",
        headers: { "content-type": "application/json", "x-mcp-session": sessionId, ...headers, ...more },
        body: typeof body === "string" ? body : JSON.stringify(body),
        peer: postPeer,
      }),
    leave: async () => reader.cancel(),
  };
}

/** A call of a tool as JSON-RPC. */
export function toolCall(id: number | string, name: string, args: Readonly<Record<string, unknown>> = {}): unknown {
  return { jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: args } };
}

/** The data of an event as JSON. */
export function dataOf(event: EventSourceMessage | undefined): unknown {
  return JSON.parse(event?.data ?? "null");
}
