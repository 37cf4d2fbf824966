// The echo server over Streamable HTTP, at /mcp, and over HTTP+SSE, at /sse, on raw sockets: it answers more cheaply
// than anybody can ask. Answers of one event stream come in another order than the questions did.
import { createServer } from "node:net";
import type { Socket } from "node:net";
import { createFrameReader } from "../load/frames.ts";
import { announce } from "../load/serve.ts";
import { echoAnswer } from "./echo.ts";

/** An event stream, and what is to be sent on it in this turn. */
interface Stream {
  readonly socket: Socket;
  events: string[];
}

const streams = new Map<string, Stream>();
let sessions = 0;

const server = createServer({ noDelay: true }, (socket) => {
  socket.on(
    "data",
    createFrameReader((head, body) => {
      const [verb = "", path = ""] = head.split(" ", 2);
      if (verb === "POST") post(socket, path, body);
      else if (verb === "GET" && path === "/sse") openStream(socket);
      else socket.write(emptyAnswer(verb === "DELETE" ? "200 OK" : "405 Not Allowed"));
    }),
  );
  // Clients go when they are done; that is no fault.
  socket.on("error", () => socket.destroy());
});
announce(server, "/mcp");

function post(socket: Socket, path: string, body: Buffer): void {
  const message: unknown = JSON.parse(body.toString());
  const answer = echoAnswer(message);
  if (path !== "/mcp") {
    const stream = streams.get(path);
    socket.write(emptyAnswer(stream === undefined ? "404 Not Found" : "202 Accepted"));
    if (stream !== undefined && answer !== undefined) send(stream, `event: message\ndata: ${answer}\n\n`);
  } else if (answer === undefined) {
    socket.write(emptyAnswer("202 Accepted"));
  } else {
    sessions += 1;
    const session = answer.includes('"protocolVersion"') ? `mcp-session-id: soak-${sessions}\r\n` : "";
    const length = Buffer.byteLength(answer);
    socket.write(
      `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n${session}content-length: ${length}\r\n\r\n${answer}`,
    );
  }
}

function openStream(socket: Socket): void {
  sessions += 1;
  const path = `/messages?session=${sessions}`;
  const stream: Stream = { socket, events: [] };
  streams.set(path, stream);
  socket.on("close", () => streams.delete(path));
  socket.write("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n");
  send(stream, `event: endpoint\ndata: ${path}\n\n`);
}

function send(stream: Stream, event: string): void {
  stream.events.push(event);
  if (stream.events.length > 1) return;
  setImmediate(() => {
    const block = stream.events.toReversed().join("");
    stream.events = [];
    stream.socket.write(`${Buffer.byteLength(block).toString(16)}\r\n${block}\r\n`);
  });
}

function emptyAnswer(status: string): string {
  return `HTTP/1.1 ${status}\r\ncontent-length: 0\r\n\r\n`;
}
