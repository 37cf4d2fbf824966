// A bare MCP server on a raw socket: fixed answers with the request's id, so cheap that what stands before it is
// what gets measured. It speaks both eras. At /mcp it offers a GET stream, at /no-stream it does not.
import { randomUUID } from "node:crypto";
import { createServer } from "node:net";
import type { Socket } from "node:net";
import {
  discoverResult,
  initializeResultFor,
  isAsk,
  progressOf,
  questionOf,
  toolResult,
  toolsResult,
} from "./answers.ts";
import type { Ask } from "./answers.ts";
import { createFrameReader } from "./frames.ts";
import { announce } from "./serve.ts";

/** How long the tool `stream` thinks before its first event: long enough for the head of the answer to get through. */
const thinkMs = 3;

const server = createServer({ noDelay: true }, (socket) => {
  socket.on(
    "data",
    createFrameReader((head, body) => {
      const [verb = "", path = ""] = head.split(" ", 2);
      if (verb === "POST") post(socket, body);
      else if (verb === "GET" && path === "/mcp") openStream(socket);
      else socket.write(`HTTP/1.1 ${verb === "DELETE" ? "200 OK" : "405 Not Allowed"}\r\ncontent-length: 0\r\n\r\n`);
    }),
  );
  // Clients go when they are done; that is no fault.
  socket.on("error", () => socket.destroy());
});
announce(server, "/mcp");

function post(socket: Socket, body: Buffer): void {
  const ask: unknown = JSON.parse(body.toString("latin1"));
  if (!isAsk(ask)) {
    socket.write("HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n");
  } else if (ask.method === "initialize") {
    // Like those of the SDKs: a gateway carries it in every request, and the sessions of several servers in one id.
    answer(socket, ask, initializeResultFor(ask), `mcp-session-id: ${randomUUID()}\r\n`);
  } else if (ask.method === "server/discover") {
    answer(socket, ask, discoverResult);
  } else if (ask.method === "tools/list") {
    answer(socket, ask, toolsResult);
  } else if (ask.params?.name === "stream") {
    streamAnswer(socket, ask);
  } else if (ask.params?.name === "ask") {
    openStream(socket);
    socket.write(eventChunk(questionOf(ask)));
  } else {
    answer(socket, ask, toolResult);
  }
}

function answer(socket: Socket, { id }: Ask, result: string, headers = ""): void {
  const body = `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`;
  socket.write(
    `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n${headers}content-length: ${body.length}\r\n\r\n${body}`,
  );
}

/** Opens an event stream at once; the first event, with the time at which it left, comes a moment later. */
function streamAnswer(socket: Socket, ask: Ask): void {
  openStream(socket);
  setTimeout(() => {
    socket.write(eventChunk(progressOf(ask, process.hrtime.bigint())));
    setImmediate(() => {
      socket.write(`${eventChunk(`{"jsonrpc":"2.0","id":${JSON.stringify(ask.id)},"result":${toolResult}}`)}0\r\n\r\n`);
    });
  }, thinkMs);
}

function openStream(socket: Socket): void {
  socket.write(
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n",
  );
}

function eventChunk(message: string): string {
  const block = `event: message\ndata: ${message}\n\n`;
  return `${block.length.toString(16)}\r\n${block}\r\n`;
}
