import { z } from "zod";

import { fakeUpstream, type FakeUpstream, type UpstreamCall } from "./fake-upstream.ts";

/** A message as it came to a fake server. */
export interface UpstreamMessage {
  readonly id?: string | number | undefined;
  readonly method?: string | undefined;
  readonly params?: Readonly<Record<string, unknown>> | undefined;
  readonly result?: unknown;
  readonly error?: unknown;
}

/** What a test does with the requests that are not part of the handshake. */
export type Answering = (call: UpstreamCall, message: UpstreamMessage) => void | Promise<void>;

/** A legacy server that shakes hands and leaves everything else to the test. */
export interface LegacyUpstream extends FakeUpstream {
  /** Forgets its sessions, as a server does that was started anew. */
  readonly forget: () => void;
  /** The ids of the sessions that it opened, in order. */
  readonly sessions: readonly string[];
  /** The requests of one verb so far. */
  readonly of: (verb: string) => readonly UpstreamCall[];
  /** The messages of one method that came so far, with their calls. */
  readonly received: (method: string) => readonly UpstreamCall[];
}

const wireMessage = z.looseObject({
  id: z.union([z.string(), z.number()]).optional(),
  method: z.string().optional(),
  params: z.record(z.string(), z.unknown()).optional(),
});

/** Reads the body of a POST. */
export function sentMessage(call: UpstreamCall): UpstreamMessage {
  return wireMessage.parse(call.json);
}

/**
 * Starts a server that agrees on whatever revision is asked for and gives out session ids of its own. It has no GET
 * stream unless the test answers GET itself.
 */
export async function legacyUpstream(
  answer: Answering,
  answerGet: (call: UpstreamCall) => void | Promise<void> = (call) => call.replyRaw(405, { allow: "POST" }),
): Promise<LegacyUpstream> {
  const sessions: string[] = [];
  const known = new Set<string>();
  const upstream = await fakeUpstream(async (call) => {
    if (call.method === "GET") return answerGet(call);
    if (call.method === "DELETE") return call.replyRaw(200);
    const message = sentMessage(call);
    const session = call.headers["mcp-session-id"];
    if (message.method === "initialize") {
      const opened = `upstream-${sessions.length + 1}`;
      sessions.push(opened);
      known.add(opened);
      const result = {
        protocolVersion: message.params?.["protocolVersion"],
        capabilities: { tools: {} },
        serverInfo: { name: "fake", version: "1.0.0" },
      };
      return call.reply({ jsonrpc: "2.0", id: message.id, result }, 200, { "mcp-session-id": opened });
    }
    if (typeof session !== "string" || !known.has(session)) {
      return call.reply({ jsonrpc: "2.0", id: null, error: { code: -32_001, message: "no session" } }, 404);
    }
    if (message.method === "notifications/initialized") return call.replyRaw(202);
    return answer(call, message);
  });
  const { calls } = upstream;
  return {
    ...upstream,
    calls,
    sessions,
    forget: () => {
      known.clear();
    },
    of: (verb) => calls.filter(({ method }) => method === verb),
    received: (method) => calls.filter((call) => call.method === "POST" && sentMessage(call).method === method),
    [Symbol.asyncDispose]: upstream[Symbol.asyncDispose],
  };
}
