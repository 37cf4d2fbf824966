import { randomUUID } from "node:crypto";
import { Agent, request } from "node:http";
import { createInterface } from "node:readline";
import { PassThrough } from "node:stream";

import { Client, SSEClientTransport } from "@modelcontextprotocol/client";

import { systemTimer } from "../../src/exchange.ts";
import type { Gateway } from "../../src/gateway/create.ts";
import { serveStdio } from "../../src/transports/stdio/server.ts";
import { callBody, postHeaders } from "../load/calls.ts";
import type { CallEra } from "../load/calls.ts";

/** A client that calls one tool again and again. */
export interface Caller extends AsyncDisposable {
  /** Makes one call and throws where it is not answered with a result. */
  call(id: number): Promise<void>;
}

/** Every way in which a client can come to the gateway. */
export const clientForms = ["streamable, legacy", "streamable, modern", "http+sse", "stdio"] as const;
export type ClientForm = (typeof clientForms)[number];

/** A route, and a tool of the server behind it. */
export interface Place {
  readonly route: string;
  readonly tool: string;
}

/** Connects a client to a route. */
export async function connectCaller(
  form: ClientForm,
  gateway: Gateway,
  origin: string,
  { route, tool }: Place,
): Promise<Caller> {
  switch (form) {
    case "streamable, legacy":
      return httpCaller(`${origin}/${route}/mcp`, "legacy", tool);
    case "streamable, modern":
      return httpCaller(`${origin}/${route}/mcp`, "modern", tool);
    case "http+sse":
      return sseCaller(`${origin}/${route}/sse`, tool);
    case "stdio":
      return stdioCaller(gateway, route, tool);
  }
}

const handshake = (id: number): string =>
  JSON.stringify({
    jsonrpc: "2.0",
    id,
    method: "initialize",
    params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "soak", version: "1" } },
  });

async function httpCaller(url: string, era: CallEra, tool: string): Promise<Caller> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 });
  const send = (headers: Record<string, string>, body: string | undefined, method = "POST") =>
    new Promise<{ readonly text: string; readonly session: string | undefined }>((resolve, reject) => {
      const outgoing = request(url, { method, headers, agent }, (answer) => {
        let text = "";
        answer.setEncoding("utf8");
        answer.on("data", (chunk: string) => (text += chunk));
        answer.on("error", reject);
        answer.on("end", () => {
          const session = answer.headers["mcp-session-id"];
          resolve({ text, session: typeof session === "string" ? session : undefined });
        });
      });
      outgoing.on("error", reject);
      outgoing.end(body);
    });
  const mirrored = era === "modern" ? { "mcp-method": "tools/call", "mcp-name": tool } : {};
  let session: string | undefined;
  if (era === "legacy") {
    ({ session } = await send(postHeaders(era, undefined), handshake(1)));
    await send(postHeaders(era, session), '{"jsonrpc":"2.0","method":"notifications/initialized"}');
  }
  const headers = { ...postHeaders(era, session), ...mirrored };
  return {
    call: async (id) => checked((await send(headers, callBody(era, id, tool))).text),
    [Symbol.asyncDispose]: async () => {
      if (session !== undefined) await send(postHeaders(era, session), undefined, "DELETE");
      agent.destroy();
    },
  };
}

async function sseCaller(url: string, tool: string): Promise<Caller> {
  const client = new Client({ name: "soak", version: "1" }, { versionNegotiation: { mode: "legacy" } });
  await client.connect(new SSEClientTransport(new URL(url)));
  return {
    call: async () => {
      const { isError } = await client.callTool({ name: tool, arguments: { text: "again" } });
      if (isError === true) throw new Error("the call failed");
    },
    [Symbol.asyncDispose]: async () => client.close(),
  };
}

/** The way of `headgate stdio`, with pipes in this process in place of standard streams. */
async function stdioCaller(gateway: Gateway, route: string, tool: string): Promise<Caller> {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const gone = Promise.withResolvers<void>();
  const channel = serveStdio({ input, output, newId: randomUUID, setTimer: systemTimer }, (opened) =>
    gateway.serve(opened, route, gone.resolve),
  );
  const waiting = new Map<number, (line: string) => void>();
  createInterface({ input: output }).on("line", (line) => {
    const id = Number(/"id":(\d+)/u.exec(line)?.[1]);
    waiting.get(id)?.(line);
    waiting.delete(id);
  });
  const ask = (id: number, text: string): Promise<string> =>
    new Promise((resolve) => {
      waiting.set(id, resolve);
      input.write(`${text}\n`);
    });
  checked(await ask(1, handshake(1)));
  input.write('{"jsonrpc":"2.0","method":"notifications/initialized"}\n');
  return {
    call: async (id) => checked(await ask(id, callBody("legacy", id, tool))),
    [Symbol.asyncDispose]: async () => {
      input.end();
      await gone.promise;
      await channel.close("done");
    },
  };
}

function checked(text: string): void {
  if (!text.includes('"result"')) throw new Error(`not answered with a result: ${text.slice(0, 500)}`);
}
