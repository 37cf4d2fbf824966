import type { OutgoingHttpHeaders } from "node:http";
import type { EventSourceMessage } from "eventsource-parser";

import { exchange, openStream, type RawAnswer, type RawStream } from "./raw-http.ts";

/** A raw client of the document's profile over a real socket. */
export interface KitStream extends AsyncDisposable {
  readonly stream: RawStream;
  readonly sessionId: string;
  /** Reads up to the first event of this name and answers with it. */
  readonly until: (name: string) => Promise<EventSourceMessage>;
  readonly post: (body: unknown, headers?: OutgoingHttpHeaders) => Promise<RawAnswer>;
}

/** Opens a stream and reads its first two events; `url` is that of the transport. */
export async function openKitStream(url: string, headers: OutgoingHttpHeaders = {}): Promise<KitStream> {
  const stream = await openStream(`${url}/sse`, { headers });
  if (stream.status !== 200) {
    stream.close();
    throw new Error(`no stream: ${stream.status}`);
  }
  async function until(name: string): Promise<EventSourceMessage> {
    for (let event = await stream.next(); event !== undefined; event = await stream.next()) {
      if (event.event === name) return event;
    }
    throw new Error(`the stream ended before ${name}`);
  }
  const { sessionId } = JSON.parse((await until("connected")).data) as { sessionId: string };
  return {
    stream,
    sessionId,
    until,
    post: async (body, more = {}) =>
      exchange(`${url}/rpc?sessionId=${sessionId}`, {
        method: "POST",
        headers: { "content-type": "application/json", "x-mcp-session": sessionId, ...headers, ...more },
        body,
      }),
    [Symbol.asyncDispose]: async () => stream.close(),
  };
}
