import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

import { afterEach, expect, it } from "vitest";

import { prepareUpstreamSocket } from "./upstream-socket.ts";

const head = (length: number): string => `POST /mcp HTTP/1.1\r\ncontent-length: ${length}\r\n\r\n`;

let server: Server | undefined;
afterEach(() => {
  server?.close();
});

/** A prepared connection, and what its server has received when it ends. */
async function open(): Promise<{ readonly socket: Socket; readonly received: Promise<Buffer> }> {
  const { promise: received, resolve } = Promise.withResolvers<Buffer>();
  server = createServer((accepted) => {
    const chunks: Buffer[] = [];
    accepted.on("data", (chunk) => chunks.push(chunk)).on("end", () => resolve(Buffer.concat(chunks)));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const socket = connect((server.address() as AddressInfo).port, "127.0.0.1");
  await once(socket, "connect");
  prepareUpstreamSocket(socket);
  return { socket, received };
}

/** As undici writes a request with a whole body. */
function send(socket: Socket, body: Buffer): void {
  socket.cork();
  socket.write(head(body.length), "latin1");
  socket.write(body);
  socket.uncork();
}

it.each([1, 150, 16 * 1024, 16 * 1024 + 1, 300_000])("sends head and body of %i bytes as they are", async (length) => {
  const { socket, received } = await open();
  const body = Buffer.from(Array.from({ length }, (_, index) => index % 256));
  send(socket, body);
  socket.end();
  expect(await received).toEqual(Buffer.concat([Buffer.from(head(length)), body]));
});

it("writes a short request at once, and later parts behind it", async () => {
  const { socket, received } = await open();
  send(socket, Buffer.from("first"));
  expect(socket.bytesWritten).toBe(head(5).length + 5);
  socket.write("\r\n5\r\n", "latin1");
  socket.write(Buffer.from("later"));
  socket.end();
  expect(String(await received)).toBe(`${head(5)}first\r\n5\r\nlater`);
});

it("loses no request if another follows in the same turn", async () => {
  const { socket, received } = await open();
  for (const body of ["one", "two", "three"]) send(socket, Buffer.from(body));
  socket.end();
  expect(String(await received)).toBe(`${head(3)}one${head(3)}two${head(5)}three`);
});

it("writes a head without a body at once", async () => {
  const { socket, received } = await open();
  socket.write("GET /mcp HTTP/1.1\r\n\r\n", "latin1");
  socket.end();
  expect(String(await received)).toBe("GET /mcp HTTP/1.1\r\n\r\n");
});
