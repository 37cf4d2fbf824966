import { once } from "node:events";
import { createServer, type IncomingMessage, type Server } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { GatewayError } from "../../errors.ts";
import { onBodyReceived, readBody, SyncBodyRequest } from "./request-body.ts";

const servers: Server[] = [];

afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

/** Serves with requests of ours, or with those of Node, and answers with what the function says. */
async function serve(
  answer: (request: IncomingMessage) => Promise<string>,
  kind: typeof IncomingMessage | undefined = SyncBodyRequest,
): Promise<number> {
  const server = createServer(kind === undefined ? {} : { IncomingMessage: kind }, (request, response) => {
    void answer(request).then(
      (text) => response.end(text),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  });
  servers.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  // A server that listens on a port has an address of this form.
  return (server.address() as AddressInfo).port;
}

function post(port: number, body: string): string {
  return `POST / HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;
}

/** Sends raw parts, each after the one before was taken up, and gives all that came back once it ends so. */
async function talk(port: number, parts: readonly string[], until: string): Promise<string> {
  const socket = connect({ host: "127.0.0.1", port, noDelay: true });
  await once(socket, "connect");
  let text = "";
  const heard = Promise.withResolvers<void>();
  socket.on("data", (bytes: Buffer) => {
    text += bytes.toString();
    if (text.endsWith(until)) heard.resolve();
  });
  socket.on("close", () => {
    heard.resolve();
  });
  for (const part of parts) await new Promise((resolve) => socket.write(part, resolve));
  await heard.promise;
  socket.destroy();
  return text;
}

describe.each([
  ["direct", SyncBodyRequest],
  ["streamed", undefined],
] as const)("a %s body", (_name, kind) => {
  it("comes as a whole, whatever parts it was sent in", async () => {
    const port = await serve(async (request) => `<${(await readBody(request, 1000)).toString()}>`, kind);
    const [head = "", body = ""] = post(port, "one two three").split(/(?<=\r\n\r\n)/u);
    const text = await talk(port, [head, body.slice(0, 4), body.slice(4, 8), body.slice(8)], ">");
    expect(text).toContain("<one two three>");
  });

  it("may be empty", async () => {
    const port = await serve(async (request) => `<${(await readBody(request, 1000)).length}>`, kind);
    expect(await talk(port, [post(port, "")], ">")).toContain("<0>");
  });

  it("is refused as soon as it is too long, and the connection goes on", async () => {
    const port = await serve(async (request) => {
      try {
        return `<${(await readBody(request, 10)).length}>`;
      } catch (error) {
        return `<${error instanceof GatewayError ? error.code : "?"}>`;
      }
    }, kind);
    const chunked = `POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n14\r\n${"x".repeat(20)}\r\n0\r\n\r\n`;
    const text = await talk(port, [chunked + post(port, "short")], "<5>");
    expect(text).toContain("<too_large>");
    expect(text).toContain("<5>");
  });

  it("comes once for each of several requests sent at once", async () => {
    const port = await serve(async (request) => `<${(await readBody(request, 1000)).toString()}>`, kind);
    const text = await talk(port, [post(port, "a") + post(port, "b") + post(port, "c")], "<c>");
    expect(text.match(/<.>/gu)).toEqual(["<a>", "<b>", "<c>"]);
  });

  it("that breaks off is told as a client that went away", async () => {
    const failure = Promise.withResolvers<unknown>();
    const received = Promise.withResolvers<void>();
    const port = await serve(async (request) => {
      onBodyReceived(request, received.resolve);
      await readBody(request, 1000).catch(failure.resolve);
      return "";
    }, kind);
    const socket = connect({ host: "127.0.0.1", port });
    socket.write(`POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\nhalf`, () => socket.destroy());
    await expect(failure.promise).resolves.toMatchObject({ code: "cancelled" });
    await received.promise;
  });

  it("ends also when nobody reads it", async () => {
    const received = Promise.withResolvers<void>();
    const port = await serve((request) => {
      onBodyReceived(request, received.resolve);
      return Promise.resolve("<unread>");
    }, kind);
    expect(await talk(port, [post(port, "ignored")], ">")).toContain("<unread>");
    await received.promise;
  });
});

describe("DirectRequest", () => {
  it("is a stream for a reader that comes too late", async () => {
    const port = await serve(async (request) => {
      // The body comes in the same read as the head, so it is in the stream a turn later.
      await new Promise((resolve) => {
        setImmediate(resolve);
      });
      return `<${(await readBody(request, 1000)).toString()}>`;
    });
    expect(await talk(port, [post(port, "early")], ">")).toContain("<early>");
  });

  it("is a stream for a reader that treats it as one", async () => {
    const port = await serve(async (request) => {
      let text = "";
      for await (const chunk of request) text += String(chunk);
      return `<${text}>`;
    });
    expect(await talk(port, [post(port, "as ever")], ">")).toContain("<as ever>");
  });

  it("has ended when it has been taken, so that the server lets go of it", async () => {
    const port = await serve(async (request) => {
      await readBody(request, 1000);
      const { readableEnded, complete, aborted } = request;
      return `<${JSON.stringify({ readableEnded, complete, aborted })}>`;
    });
    expect(await talk(port, [post(port, "body")], ">")).toContain(
      '<{"readableEnded":true,"complete":true,"aborted":false}>',
    );
  });
});
