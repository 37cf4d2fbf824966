// The least that a proxy for big streams can do: take a POST with node:http, send it on with undici, parse every event of
// the answer once, and pass the bytes on as they come.
import { createServer } from "node:http";
import { createParser } from "eventsource-parser";
import { request as send } from "undici";
import { postHeaders } from "../load/calls.ts";
import { announce } from "../load/serve.ts";

const target = process.argv[2] ?? "";

const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const body = Buffer.concat(chunks);
    JSON.parse(String(body));
    void pass(body, request.headers["mcp-session-id"]);
  });

  async function pass(body: Buffer, session: string | string[] | undefined): Promise<void> {
    const headers = postHeaders("legacy", typeof session === "string" ? session : undefined);
    const answer = await send(target, { method: "POST", headers, body });
    response.writeHead(answer.statusCode, {
      "content-type": String(answer.headers["content-type"] ?? "application/json"),
      ...(answer.headers["mcp-session-id"] === undefined ? {} : { "mcp-session-id": answer.headers["mcp-session-id"] }),
    });
    const decoder = new TextDecoder();
    const parser = createParser({ onEvent: ({ data }) => void JSON.parse(data) });
    for await (const chunk of answer.body as AsyncIterable<Buffer>) {
      parser.feed(decoder.decode(chunk, { stream: true }));
      if (!response.write(chunk)) await new Promise((resolve) => response.once("drain", resolve));
    }
    response.end();
  }
});
announce(server, "/mcp");
