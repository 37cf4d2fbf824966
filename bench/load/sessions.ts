import { Agent, request } from "node:http";
import type { IncomingMessage } from "node:http";
import { callBody, firstId, postHeaders } from "./calls.ts";
import type { Target } from "./calls.ts";

/** Sessions that were opened at a place, with the streams that stay open. */
export interface HeldSessions {
  readonly ids: readonly string[];
  release(): void;
}

const openersAtOnce = 32;

/** Opens sessions, each with a GET stream if asked. */
export async function holdSessions(target: Target, count: number, withStreams: boolean): Promise<HeldSessions> {
  const agent = new Agent({ keepAlive: true, maxSockets: openersAtOnce });
  const ids: string[] = [];
  const streams: IncomingMessage[] = [];
  let left = count;
  const opener = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      const id = await openSession(target, agent);
      ids.push(id);
      if (withStreams) streams.push(await openStream(target, id));
    }
  };
  await Promise.all(Array.from({ length: openersAtOnce }, opener));
  agent.destroy();
  return {
    ids,
    release: () => {
      for (const stream of streams) stream.destroy();
    },
  };
}

/** Times one streamed call: milliseconds between the server's writing of the first event and its arrival here. */
export async function timeFirstEvent(target: Target, session: string | undefined, id: number): Promise<number> {
  const modern = { "mcp-method": "tools/call", "mcp-name": "stream" };
  const headers = { ...postHeaders(target.era, session), ...(target.era === "modern" ? modern : {}) };
  const answer = await send(target, "POST", headers, callBody(target.era, id, "stream"));
  let latency: number | undefined;
  for await (const chunk of answer) {
    const now = process.hrtime.bigint();
    const sentAt = /"message":"(\d+)"/.exec(String(chunk))?.[1];
    if (sentAt !== undefined) latency ??= Number(now - BigInt(sentAt)) / 1e6;
  }
  if (latency === undefined) throw new Error(`no event in the answer (status ${answer.statusCode})`);
  return latency;
}

/** Makes calls that end in a question each; the retries never come. */
export async function parkCalls(target: Target, count: number): Promise<void> {
  const agent = new Agent({ keepAlive: true, maxSockets: openersAtOnce });
  const headers = {
    ...postHeaders("modern", undefined),
    "mcp-method": "tools/call",
    "mcp-name": "ask",
  };
  let left = count;
  const caller = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      const body = callBody("modern", firstId + left, "ask").replace(
        '"io.modelcontextprotocol/clientCapabilities":{}',
        '"io.modelcontextprotocol/clientCapabilities":{"elicitation":{"form":{}}}',
      );
      const answer = await send(target, "POST", headers, body, agent);
      const text = await drain(answer);
      if (!text.includes('"input_required"')) throw new Error(`the call was not parked: ${text}`);
    }
  };
  await Promise.all(Array.from({ length: openersAtOnce }, caller));
  agent.destroy();
}

/** Opens a session and returns its id. */
export async function openSession(target: Target, agent: Agent): Promise<string> {
  const params = {
    protocolVersion: "2025-11-25",
    capabilities: {},
    clientInfo: { name: "bench", version: "1.0.0" },
  };
  const initialize = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "initialize", params });
  const answer = await send(target, "POST", postHeaders("legacy", undefined), initialize, agent);
  await drain(answer);
  const id = answer.headers["mcp-session-id"];
  if (typeof id !== "string") throw new Error(`no session from ${target.url} (status ${answer.statusCode})`);
  const initialized = JSON.stringify({ jsonrpc: "2.0", method: "notifications/initialized" });
  await drain(await send(target, "POST", postHeaders("legacy", id), initialized, agent));
  return id;
}

/** Opens the GET stream of a session. */
export async function openStream(target: Target, session: string): Promise<IncomingMessage> {
  const headers = { ...postHeaders("legacy", session), accept: "text/event-stream" };
  const answer = await send(target, "GET", headers);
  if (answer.statusCode !== 200) throw new Error(`no stream from ${target.url} (status ${answer.statusCode})`);
  // Ends with the process measured, or when we let go of it.
  answer.on("error", () => {});
  answer.resume();
  return answer;
}

function send(
  { url, authorization }: Target,
  method: string,
  headers: Record<string, string>,
  body?: string,
  agent?: Agent,
): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const more = {
      ...(body === undefined ? {} : { "content-length": String(body.length) }),
      ...(authorization === undefined ? {} : { authorization }),
    };
    const outgoing = request(url, { method, headers: { ...headers, ...more }, ...(agent && { agent }) }, resolve);
    outgoing.on("error", reject);
    outgoing.end(body);
  });
}

async function drain(answer: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of answer) text += String(chunk);
  return text;
}
