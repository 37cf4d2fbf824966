import type { EventSourceMessage } from "eventsource-parser";

import type { Revision } from "../../src/protocol/revisions.ts";
import { exchange, openStream, post, postHeaders, type RawAnswer, type RawStream } from "./raw-http.ts";

/** A session of the legacy era that a test speaks by hand, message by message. */
export interface LegacySession {
  /** What the `Mcp-Session-Id` header of the handshake said. */
  readonly id: string;
  /** The headers of every later request. */
  readonly headers: Readonly<Record<string, string>>;
  /** Posts a message and reads the whole answer. */
  readonly post: (message: unknown) => Promise<RawAnswer>;
  /** Posts a message and reads its answer event by event. */
  readonly stream: (message: unknown) => Promise<RawStream>;
  /** Opens the GET stream, or takes up the one that this event was on. */
  readonly listen: (lastEventId?: string) => Promise<RawStream>;
  /** Ends the session. */
  readonly end: () => Promise<RawAnswer>;
}

/** Shakes hands over Streamable HTTP; the extra headers, such as credentials, go with every request. */
export async function openSession(
  url: string,
  revision: Revision = "2025-11-25",
  extra: Readonly<Record<string, string>> = {},
): Promise<LegacySession> {
  const answer = await post(url, handshake(revision), extra);
  if (answer.status !== 200) throw new Error(`initialize was answered ${answer.status}: ${answer.text}`);
  const id = String(answer.headers["mcp-session-id"]);
  const headers = { ...extra, "mcp-session-id": id, "mcp-protocol-version": revision };
  const session: LegacySession = {
    id,
    headers,
    post: async (message) => post(url, message, headers),
    stream: async (message) =>
      openStream(url, { method: "POST", headers: { ...postHeaders, ...headers }, body: message }),
    listen: async (lastEventId) =>
      openStream(url, {
        headers: {
          ...headers,
          accept: "text/event-stream",
          ...(lastEventId === undefined ? {} : { "last-event-id": lastEventId }),
        },
      }),
    end: async () => exchange(url, { method: "DELETE", headers }),
  };
  const ready = await session.post({ jsonrpc: "2.0", method: "notifications/initialized" });
  if (ready.status !== 202) throw new Error(`the session was answered ${ready.status}: ${ready.text}`);
  return session;
}

/** The `initialize` request of a client that can be asked everything. */
export function handshake(revision: Revision, id: string | number = "hello"): unknown {
  const params = {
    protocolVersion: revision,
    capabilities: { sampling: {}, elicitation: {}, roots: {} },
    clientInfo: { name: "by-hand", version: "1.0.0" },
  };
  return { jsonrpc: "2.0", id, method: "initialize", params };
}

/** A `tools/call` request. */
export function toolCall(id: string | number, name: string, extra: Readonly<Record<string, unknown>> = {}): unknown {
  return { jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: {}, ...extra } };
}

/** A response with a text that tells whose it is. */
export function textResult(id: unknown, text: string): unknown {
  return { jsonrpc: "2.0", id, result: { content: [{ type: "text", text }] } };
}

/** The next event that holds a message, read as JSON; undefined when the stream has ended. */
export async function nextMessage(stream: RawStream): Promise<unknown> {
  for (let event = await stream.next(); event !== undefined; event = await stream.next()) {
    if (event.data !== "") return messageOf(event);
  }
  return undefined;
}

/** The message in an event. */
export function messageOf(event: EventSourceMessage | undefined): unknown {
  return event === undefined ? undefined : JSON.parse(event.data);
}
