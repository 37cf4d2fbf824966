// A bare MCP server for big messages. It reads no more of a request than its first bytes, and its answers are made once.
// At the names of tools: `echo` answers a line, `result-N` a text of N bytes, `events-N` 16 MB in events of N bytes each,
// `wait` says that it has begun and never ends. Its argument is the length of its list.
import { createServer } from "node:http";
import type { ServerResponse } from "node:http";
import { initializeResultFor, toolResult } from "../load/answers.ts";
import { announce } from "../load/serve.ts";
import { streamBytes, textOf } from "./messages.ts";

const tools = Array.from({ length: Number(process.argv[2] ?? 10_000) }, (_, index) => ({
  name: `tool_${index}`,
  description: `Looks after the berths of quay ${index}: who lies there, until when, and who comes next.`,
  inputSchema: {
    type: "object",
    properties: { berth: { type: "string", description: "Which berth." }, until: { type: "string", format: "date" } },
    required: ["berth"],
  },
}));
const toolsResult = JSON.stringify({ tools });
const results = new Map<number, string>();
let sessions = 0;

const server = createServer((request, response) => {
  let head = "";
  request.on("data", (chunk: Buffer) => {
    if (head.length < 200) head += chunk.toString("latin1", 0, 200);
  });
  request.on("end", () => {
    if (request.method === "POST") answer(response, head);
    else response.writeHead(request.method === "DELETE" ? 200 : 405).end();
  });
});
announce(server, "/mcp");

function answer(response: ServerResponse, head: string): void {
  const id = /"id":("[^"]*"|\d+)/u.exec(head)?.[1];
  const method = /"method":"([^"]+)"/u.exec(head)?.[1];
  const [kind = "", size = "0"] = /"name":"([^"]+)"/u.exec(head)?.[1]?.split("-") ?? [];
  if (id === undefined) {
    response.writeHead(202).end();
  } else if (method === "initialize") {
    sessions += 1;
    response.setHeader("mcp-session-id", `big-${sessions}`);
    respond(response, id, initializeResultFor({ id, method }));
  } else if (method === "tools/list") {
    respond(response, id, toolsResult);
  } else if (kind === "events") {
    streamEvents(response, id, Number(size));
  } else if (kind === "wait") {
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.write(
      'data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"begun"}}\n\n',
    );
  } else {
    respond(response, id, kind === "result" ? resultOf(Number(size)) : toolResult);
  }
}

function respond(response: ServerResponse, id: string, result: string): void {
  const body = Buffer.from(`{"jsonrpc":"2.0","id":${id},"result":${result}}`);
  response.writeHead(200, { "content-type": "application/json", "content-length": body.length });
  response.end(body);
}

function resultOf(bytes: number): string {
  let result = results.get(bytes);
  if (result === undefined) {
    result = JSON.stringify({ content: [{ type: "text", text: textOf(bytes) }] });
    results.set(bytes, result);
  }
  return result;
}

/** As fast as the reader takes them. */
function streamEvents(response: ServerResponse, id: string, bytes: number): void {
  response.writeHead(200, { "content-type": "text/event-stream" });
  const params = { level: "info", data: textOf(bytes) };
  const event = `data: ${JSON.stringify({ jsonrpc: "2.0", method: "notifications/message", params })}\n\n`;
  let left = Math.round(streamBytes / bytes);
  const more = (): void => {
    while (left > 0) {
      left -= 1;
      if (!response.write(event)) {
        response.once("drain", more);
        return;
      }
    }
    response.end(`data: {"jsonrpc":"2.0","id":${id},"result":${toolResult}}\n\n`);
  };
  more();
}
