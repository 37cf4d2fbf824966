import { createServer, type IncomingMessage, type ServerResponse } from "node:http";

import { isObject } from "../lib/is-object.ts";
import type { UnknownRecord } from "./json-rpc.ts";

/** A reply of the scripted model: text, tool uses, or both. */
export interface OfflineReply {
  readonly text?: string;
  readonly toolUses?: readonly { readonly id?: string; readonly name: string; readonly input: UnknownRecord }[];
}

/** A request of the CLI to the model. */
export interface OfflineRequest {
  /** Its number in the conversation, from 0. */
  readonly index: number;
  /** The tools that the model may use. */
  readonly toolNames: readonly string[];
  /** All tool results of the conversation so far, by the id of their tool use. */
  readonly toolResults: ReadonlyMap<string, UnknownRecord>;
  readonly body: UnknownRecord;
}

/** The replies of the model: a list in order, or a function. */
export type OfflineScript =
  | readonly OfflineReply[]
  | ((request: OfflineRequest) => OfflineReply | Promise<OfflineReply>);

/** A fake Messages API on loopback. */
export interface OfflineApi extends AsyncDisposable {
  readonly url: string;
  /** The requests so far. */
  readonly requests: readonly OfflineRequest[];
  /** Environment variables that make the CLI use it, and nothing else on the network. */
  readonly env: Readonly<Record<string, string>>;
  close(): Promise<void>;
}

/** Stops a script that never ends. */
const maxRequests = 100;

/**
 * Starts a fake Messages API on loopback that replies from a script, so that an agent runs without a key and without a
 * network. For tests and examples.
 *
 * @example
 * ```ts
 * await using api = await startOfflineApi([{ text: "Yes, 12." }]);
 * const messages = query({ prompt: "Do we have tea?", options: { env: { ...process.env, ...api.env } } });
 * ```
 */
export async function startOfflineApi(script: OfflineScript): Promise<OfflineApi> {
  const requests: OfflineRequest[] = [];

  async function answer(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await readBody(incoming);
    if (incoming.method !== "POST" || body === undefined || !incoming.url?.startsWith("/v1/messages")) {
      response.writeHead(incoming.method === "HEAD" ? 200 : 404).end();
      return;
    }
    if (incoming.url.startsWith("/v1/messages/count_tokens")) {
      response.writeHead(200, { "content-type": "application/json" }).end('{"input_tokens":1}');
      return;
    }
    const request = { index: requests.length, ...factsOf(body), body };
    requests.push(request);
    if (requests.length > maxRequests) {
      refuse(response, `the script got more than ${maxRequests} requests`);
      return;
    }
    const reply = typeof script === "function" ? await script(request) : script[request.index];
    if (reply === undefined) refuse(response, `the script has no reply ${request.index}`);
    else writeReply(response, request, reply);
  }

  const server = createServer((incoming, response) => {
    answer(incoming, response).catch((error: unknown) => refuse(response, String(error)));
  });
  const listening = Promise.withResolvers<void>();
  server.once("error", listening.reject);
  server.listen(0, "127.0.0.1", listening.resolve);
  await listening.promise;
  const address = server.address();
  const url = `http://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}`;

  async function close(): Promise<void> {
    const closed = Promise.withResolvers<void>();
    server.close(() => closed.resolve());
    server.closeAllConnections();
    await closed.promise;
  }
  return { url, requests, env: offlineEnvironment(url), close, [Symbol.asyncDispose]: close };
}

function offlineEnvironment(url: string): Readonly<Record<string, string>> {
  return {
    ANTHROPIC_BASE_URL: url,
    ANTHROPIC_API_KEY: "offline",
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    DISABLE_TELEMETRY: "1",
    DISABLE_ERROR_REPORTING: "1",
    DISABLE_AUTOUPDATER: "1",
  };
}

async function readBody(incoming: IncomingMessage): Promise<UnknownRecord | undefined> {
  const chunks: Buffer[] = [];
  for await (const chunk of incoming as AsyncIterable<Buffer>) chunks.push(chunk);
  try {
    const body: unknown = JSON.parse(Buffer.concat(chunks).toString("utf8"));
    return isObject(body) ? body : undefined;
  } catch {
    return undefined;
  }
}

/** Searches all messages: the CLI appends others after the results. */
function factsOf(body: UnknownRecord): Pick<OfflineRequest, "toolNames" | "toolResults"> {
  const blocks = listOf(body["messages"]).flatMap((message) => listOf(isObject(message) ? message["content"] : []));
  const results = blocks.filter(isObject).filter(({ type }) => type === "tool_result");
  return {
    toolNames: listOf(body["tools"]).flatMap((tool) => (isObject(tool) ? [String(tool["name"])] : [])),
    toolResults: new Map(results.map((result) => [String(result["tool_use_id"]), result])),
  };
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function refuse(response: ServerResponse, message: string): void {
  const error = { type: "error", error: { type: "invalid_request_error", message } };
  response.writeHead(400, { "content-type": "application/json" }).end(JSON.stringify(error));
}

function writeReply(response: ServerResponse, { index, body }: OfflineRequest, reply: OfflineReply): void {
  const toolUses = reply.toolUses ?? [];
  const blocks = [
    ...(reply.text === undefined ? [] : [textBlock(reply.text)]),
    ...toolUses.map(({ id, name, input }, at) => toolBlock(id ?? `toolu_${index}_${at}`, name, input)),
  ];
  const message = {
    id: `msg_${index}`,
    type: "message",
    role: "assistant",
    model: body["model"],
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage: { input_tokens: 1, output_tokens: 1 },
  };
  const stopReason = toolUses.length > 0 ? "tool_use" : "end_turn";
  const events: UnknownRecord[] = [
    { type: "message_start", message },
    ...blocks.flatMap(({ start, delta }, at) => [
      { type: "content_block_start", index: at, content_block: start },
      { type: "content_block_delta", index: at, delta },
      { type: "content_block_stop", index: at },
    ]),
    { type: "message_delta", delta: { stop_reason: stopReason, stop_sequence: null }, usage: { output_tokens: 1 } },
    { type: "message_stop" },
  ];
  response.writeHead(200, { "content-type": "text/event-stream" });
  response.end(events.map((event) => `event: ${String(event["type"])}\ndata: ${JSON.stringify(event)}\n\n`).join(""));
}

function textBlock(text: string) {
  return { start: { type: "text", text: "" }, delta: { type: "text_delta", text } };
}

function toolBlock(id: string, name: string, input: UnknownRecord) {
  return {
    start: { type: "tool_use", id, name, input: {} },
    delta: { type: "input_json_delta", partial_json: JSON.stringify(input) },
  };
}
