import { randomUUID } from "node:crypto";
import { get, type IncomingMessage } from "node:http";
import { PassThrough } from "node:stream";

import { systemTimer } from "../../src/core/exchange.ts";
import type { Gateway } from "../../src/gateway/gateway.ts";
import { serveStdio } from "../../src/transports/stdio/server.ts";
import { type CallEra, postHeaders } from "../load/calls.ts";
import { createAnswers, handshake, initialized, type LeanClient } from "./call.ts";
import { createPoster, headerOf } from "./poster.ts";

const lanesOfEach = 4;

/** A client over Streamable HTTP: every lane is a connection. */
export async function connectStreamable(url: string, era: CallEra): Promise<LeanClient> {
  const posters = Array.from({ length: lanesOfEach }, () => createPoster(url));
  const [first = createPoster(url)] = posters;
  const linesOf = (session?: string): string[] =>
    Object.entries(postHeaders(era, session)).map(([name, value]) => `${name}: ${value}`);
  let headers = era === "modern" ? [...linesOf(), "mcp-method: tools/call", "mcp-name: echo"] : linesOf();
  if (era === "legacy") {
    const { head, body } = await first.send(headers, handshake);
    const session = headerOf(head, "mcp-session-id");
    if (session === undefined) throw new Error(`no session: ${head}${body}`);
    headers = linesOf(session);
    await first.send(headers, initialized);
  }
  return {
    era,
    lanes: posters.map((poster) => async (_id, call) => {
      const { head, body } = await poster.send(headers, call);
      if (!head.startsWith("HTTP/1.1 200")) throw new Error(`${head}${body}`);
      return body;
    }),
    [Symbol.asyncDispose]: async () => {
      if (era === "legacy") await first.send(headers, "", "DELETE");
      for (const poster of posters) poster.close();
    },
  };
}

/** A client over HTTP+SSE: every lane posts on a connection, the answers come on one stream. */
export async function connectSse(url: string): Promise<LeanClient> {
  const answers = createAnswers();
  const endpoint = Promise.withResolvers<string>();
  const stream = await new Promise<IncomingMessage>((resolve, reject) => {
    get(url, { headers: { accept: "text/event-stream" }, agent: false }, resolve).on("error", reject);
  });
  const lost = (): void => {
    const error = new Error(`${url}: the stream has ended`);
    endpoint.reject(error);
    answers.fail(error);
  };
  // Only its loss while somebody waits is a fault.
  endpoint.promise.catch(() => {});
  stream.setEncoding("utf8");
  stream.on("error", lost).on("close", lost);
  stream.on(
    "data",
    createBlockReader("\n\n", (block) => {
      const text = /^data: ?(.*)$/mu.exec(block)?.[1];
      // A comment keeps the connection alive.
      if (text === undefined) return;
      if (block.includes("event: endpoint")) endpoint.resolve(text);
      else answers.take(text);
    }),
  );
  const target = new URL(await endpoint.promise, url).href;
  const posters = Array.from({ length: lanesOfEach }, () => createPoster(target));
  const [first = createPoster(target)] = posters;
  const headers = ["content-type: application/json"];
  const post = async (poster: typeof first, body: string): Promise<void> => {
    const answer = await poster.send(headers, body);
    if (!answer.head.startsWith("HTTP/1.1 202")) throw new Error(`${answer.head}${answer.body}`);
  };
  await Promise.all([answers.wait(1), post(first, handshake)]);
  await post(first, initialized);
  return {
    era: "legacy",
    lanes: posters.map((poster) => async (id, call) => {
      const [answer] = await Promise.all([answers.wait(id), post(poster, call)]);
      return answer;
    }),
    [Symbol.asyncDispose]: async () => {
      for (const poster of posters) poster.close();
      stream.destroy();
    },
  };
}

/** The two ends of a client on standard streams, with pipes in this process in place of them. */
export interface Pipes extends AsyncDisposable {
  readonly toGateway: PassThrough;
  readonly fromGateway: PassThrough;
}

/** The way of `headgate stdio`. */
export function openPipes(gateway: Gateway, route: string): Pipes {
  const [toGateway, fromGateway] = [new PassThrough(), new PassThrough()];
  const gone = Promise.withResolvers<void>();
  const streams = { input: toGateway, output: fromGateway };
  const channel = serveStdio({ ...streams, newId: randomUUID, setTimer: systemTimer }, (opened) =>
    gateway.serve(opened, route, gone.resolve),
  );
  return {
    toGateway,
    fromGateway,
    [Symbol.asyncDispose]: async () => {
      toGateway.end();
      await gone.promise;
      await channel.close("done");
    },
  };
}

/** A client over standard streams: all lanes share them. */
export async function connectStdio(gateway: Gateway, route: string, era: CallEra): Promise<LeanClient> {
  const pipes = openPipes(gateway, route);
  const answers = createAnswers();
  pipes.fromGateway.setEncoding("utf8");
  pipes.fromGateway.on(
    "data",
    createBlockReader("\n", (line) => answers.take(line)),
  );
  const ask = (id: number, line: string): Promise<string> => {
    const answer = answers.wait(id);
    pipes.toGateway.write(`${line}\n`);
    return answer;
  };
  if (era === "legacy") {
    await ask(1, handshake);
    pipes.toGateway.write(`${initialized}\n`);
  }
  return {
    era,
    lanes: Array.from({ length: lanesOfEach }, () => ask),
    [Symbol.asyncDispose]: () => pipes[Symbol.asyncDispose](),
  };
}

/** Takes texts apart that come in pieces of any size. */
function createBlockReader(end: string, onBlock: (block: string) => void): (chunk: string) => void {
  let rest = "";
  return (chunk) => {
    const blocks = (rest + chunk).split(end);
    rest = blocks.pop() ?? "";
    for (const block of blocks) onBlock(block);
  };
}
