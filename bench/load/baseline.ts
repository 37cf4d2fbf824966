// The least that a proxy for MCP can do: take a POST with node:http, send it on with undici, parse both bodies once.
import { createServer } from "node:http";
import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import { Pool } from "undici";
import type { Dispatcher } from "undici";
import { announce } from "./serve.ts";

const forwarded = [
  "content-type",
  "accept",
  "mcp-session-id",
  "mcp-protocol-version",
  "mcp-method",
  "mcp-name",
] as const;

const target = new URL(process.argv[2] ?? "");
const pool = new Pool(target.origin);

const server = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on("data", (chunk: Buffer) => chunks.push(chunk));
  request.on("end", () => {
    const body = chunks.length === 1 ? chunks[0] : Buffer.concat(chunks);
    JSON.parse(String(body));
    pool.dispatch(
      { path: target.pathname, method: "POST", headers: headersFrom(request.headers), body: body ?? null },
      passTo(response),
    );
  });
});
announce(server, "/mcp");

function headersFrom(headers: IncomingHttpHeaders): Record<string, string> {
  const kept: Record<string, string> = {};
  for (const name of forwarded) {
    const value = headers[name];
    if (typeof value === "string") kept[name] = value;
  }
  return kept;
}

function passTo(response: ServerResponse): Dispatcher.DispatchHandler {
  const chunks: Buffer[] = [];
  let status = 502;
  let session: string | string[] | undefined;
  return {
    onRequestStart: () => {},
    onResponseStart: (_controller, statusCode, headers) => {
      status = statusCode;
      session = headers["mcp-session-id"];
    },
    onResponseData: (_controller, chunk) => {
      chunks.push(chunk);
    },
    onResponseEnd: () => {
      const body = Buffer.concat(chunks);
      if (body.length > 0) JSON.parse(String(body));
      response.writeHead(status, {
        "content-type": "application/json",
        "content-length": body.length,
        ...(session === undefined ? {} : { "mcp-session-id": session }),
      });
      response.end(body);
    },
    onResponseError: () => {
      response.writeHead(502);
      response.end();
    },
  };
}
