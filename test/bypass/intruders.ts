import { PassThrough } from "node:stream";

import { systemTimer } from "../../src/core/exchange.ts";
import { encodeHeaderValue } from "../../src/protocol/http/mirrored-headers.ts";
import { newestLegacy, newestModern, type Revision } from "../../src/protocol/revisions.ts";
import { serveStdio } from "../../src/transports/stdio/server.ts";
import { handshake, openSession } from "../support/legacy-session.ts";
import type { LocalGateway } from "../support/local-gateway.ts";
import { openStream, post } from "../support/raw-http.ts";
import { openCall } from "./messages.ts";

/** A client that sends what it likes. */
export interface Intruder extends AsyncDisposable {
  readonly era: "legacy" | "modern";
  /** Sends bytes where a message belongs; resolves when they have been dealt with, as far as that can be known. */
  readonly send: (bytes: string | Uint8Array) => Promise<void>;
  /** Makes the call that everybody may make; the text of its answer. */
  readonly callOpen: () => Promise<string>;
}

/** Every era and transport that a client may have. */
export const intruders: Readonly<Record<string, (gateway: LocalGateway) => Promise<Intruder>>> = {
  "2025-03-26 over HTTP": (gateway) => legacyOverHttp(gateway, "2025-03-26"),
  "2025-06-18 over HTTP": (gateway) => legacyOverHttp(gateway, "2025-06-18"),
  "2025-11-25 over HTTP": (gateway) => legacyOverHttp(gateway, "2025-11-25"),
  "modern over HTTP": async (gateway) => modernOverHttp(gateway),
  "legacy over HTTP+SSE": overSse,
  "legacy on stdio": async (gateway) => onStdio(gateway, "legacy"),
  "modern on stdio": async (gateway) => onStdio(gateway, "modern"),
};

async function legacyOverHttp({ url }: LocalGateway, revision: Revision): Promise<Intruder> {
  const { headers } = await openSession(url, revision);
  return {
    era: "legacy",
    send: async (bytes) => {
      await post(url, bytes, headers);
    },
    callOpen: async () => (await post(url, openCall("legacy"), headers)).text,
    [Symbol.asyncDispose]: async () => {},
  };
}

function modernOverHttp({ url }: LocalGateway): Intruder {
  const headersFor = (bytes: string | Uint8Array): Record<string, string> => {
    const { method, name } = readLoosely(Buffer.from(bytes).toString());
    return {
      "mcp-protocol-version": newestModern,
      ...(/^[\x21-\x7e]+$/u.test(method) ? { "mcp-method": method } : {}),
      ...(name === undefined ? {} : { "mcp-name": encodeHeaderValue(name) ?? "" }),
    };
  };
  return {
    era: "modern",
    send: async (bytes) => {
      await post(url, bytes, headersFor(bytes));
    },
    callOpen: async () => (await post(url, openCall("modern"), headersFor(openCall("modern")))).text,
    [Symbol.asyncDispose]: async () => {},
  };
}

/** What headers have to repeat, as far as a body can be read at all. */
function readLoosely(text: string): { readonly method: string; readonly name: string | undefined } {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  const method: unknown = Reflect.get(Object(value), "method");
  const params: unknown = Object(Reflect.get(Object(value), "params"));
  const name: unknown = Reflect.get(Object(params), "name") ?? Reflect.get(Object(params), "uri");
  return {
    method: typeof method === "string" ? method : "tools/call",
    name: typeof name === "string" ? name : undefined,
  };
}

async function overSse({ origin }: LocalGateway): Promise<Intruder> {
  const stream = await openStream(`${origin}/sse`, { headers: { accept: "text/event-stream" } });
  const place = await stream.next();
  const url = new URL(place?.data ?? "", origin).href;
  const answerTo = async (id: unknown): Promise<string> => {
    for (let event = await stream.next(); event !== undefined; event = await stream.next()) {
      const text = event.data;
      if (Reflect.get(Object(JSON.parse(text)), "id") === id) return text;
    }
    throw new Error("the stream ended without an answer");
  };
  const send = async (bytes: unknown): Promise<void> => {
    await post(url, bytes);
  };
  await send(handshake("2024-11-05", "hello"));
  await answerTo("hello");
  await send({ jsonrpc: "2.0", method: "notifications/initialized" });
  return {
    era: "legacy",
    send,
    callOpen: async () => {
      await send(asLast("legacy"));
      return answerTo("last");
    },
    [Symbol.asyncDispose]: async () => stream.close(),
  };
}

async function onStdio({ gateway }: LocalGateway, era: "legacy" | "modern"): Promise<Intruder> {
  const [input, output] = [new PassThrough(), new PassThrough()];
  const channel = serveStdio({ input, output, newId: () => "intruder", setTimer: systemTimer }, (opened) =>
    gateway.serve(opened, undefined, () => {}),
  );
  let said = "";
  let heard = Promise.withResolvers<void>();
  output.on("data", (part: Buffer) => {
    said += part.toString();
    heard.resolve();
    heard = Promise.withResolvers();
  });
  const answerTo = async (id: string): Promise<string> => {
    for (;;) {
      const line = said.split("\n").find((text) => text.includes(`"id":${JSON.stringify(id)}`));
      if (line !== undefined) return line;
      await heard.promise;
    }
  };
  const send = async (bytes: string | Uint8Array): Promise<void> => {
    input.write(Buffer.concat([Buffer.from(bytes), Buffer.from("\n")]));
  };
  if (era === "legacy") {
    await send(JSON.stringify(handshake(newestLegacy, "hello")));
    await answerTo("hello");
    await send('{"jsonrpc":"2.0","method":"notifications/initialized"}');
  }
  return {
    era,
    send,
    callOpen: async () => {
      await send(asLast(era));
      return answerTo("last");
    },
    [Symbol.asyncDispose]: () => channel.close("done"),
  };
}

function asLast(era: "legacy" | "modern"): string {
  return String(openCall(era)).replace('"id":7', '"id":"last"');
}
