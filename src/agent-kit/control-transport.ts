import type { JSONRPCMessage, RequestId, Transport } from "@modelcontextprotocol/server";

import { ack, classifyMessage, errorText, isJsonObject, type JsonObject, typeName } from "./json-rpc.ts";

interface PendingResponse {
  /** The id that the caller gave; ours may be another one, see `#ownId`. */
  readonly id: RequestId;
  readonly reply: (text: string) => void;
}

/**
 * The SDK's transport over a control channel: `receive` takes what the CLI sent for this server and gives the JSON text
 * of the answer; what the server sends on its own goes out through `forward`. It knows no MCP method: the SDK
 * dispatches all of them.
 */
export class ControlTransport implements Transport {
  onclose?: () => void;
  onerror?: (error: Error) => void;
  onmessage?: (message: JSONRPCMessage) => void;
  readonly #forward: (message: JSONRPCMessage) => Promise<void>;
  readonly #waiting = new Map<RequestId, PendingResponse>();
  #aliases = 0;
  #closed = false;

  constructor(forward: (message: JSONRPCMessage) => Promise<void>) {
    this.#forward = forward;
  }

  async start(): Promise<void> {
    // The channel runs already.
  }

  /** Requests that the server has not answered yet. */
  get pending(): number {
    return this.#waiting.size;
  }

  /** Hands one message to the server; resolves with the JSON text to answer with, and never rejects. */
  async receive(received: unknown): Promise<string> {
    const incoming = classifyMessage(received);
    if (incoming.kind === "invalid")
      return errorText(incoming.id, -32600, "Invalid Request", { problem: incoming.problem });
    if (this.#closed) {
      return incoming.kind === "request" ? closedText(incoming.id) : ack;
    }
    if (incoming.kind === "request") return this.#request(incoming.id, incoming.message);
    this.#deliver(incoming.kind === "notification" ? this.#withOwnIds(incoming.message) : incoming.message);
    return ack;
  }

  /** Takes a message of the server. A response answers its caller; one that nobody waits for any more is dropped. */
  async send(message: JSONRPCMessage): Promise<void> {
    // Told apart by shape first: an own request of the server may have the id of a call that still runs.
    if ("method" in message) {
      await this.#forward(message);
      return;
    }
    const waiting = message.id === undefined ? undefined : this.#waiting.get(message.id);
    if (message.id === undefined || waiting === undefined) return;
    this.#waiting.delete(message.id);
    waiting.reply(responseText(message, waiting.id));
  }

  /** Ends the connection: the server aborts its calls, and whoever waits for one is told. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    for (const { id, reply } of this.#waiting.values()) reply(closedText(id));
    this.#waiting.clear();
    this.onclose?.();
  }

  async #request(id: RequestId, message: JsonObject): Promise<string> {
    const { promise, resolve } = Promise.withResolvers<string>();
    const ownId = this.#ownId(id);
    this.#waiting.set(ownId, { id, reply: resolve });
    this.#deliver(ownId === id ? message : { ...message, id: ownId });
    return promise;
  }

  /**
   * A client that starts over counts its ids from the beginning while older calls may still run; those keep their ids
   * and the new request gets another one on our side.
   */
  #ownId(id: RequestId): RequestId {
    if (!this.#waiting.has(id)) return id;
    this.#aliases += 1;
    return this.#ownId(`${id} again ${this.#aliases}`);
  }

  /** The SDK never answers a cancelled request, so the one who waits for it is let go here. */
  #withOwnIds(message: JsonObject): JsonObject {
    const { method, params } = message;
    if (method !== "notifications/cancelled" || !isJsonObject(params)) return message;
    const found = [...this.#waiting].findLast(([, waiting]) => waiting.id === params["requestId"]);
    if (found === undefined) return message;
    const [requestId, { reply }] = found;
    this.#waiting.delete(requestId);
    reply(ack);
    return { ...message, params: { ...params, requestId } };
  }

  #deliver(message: JsonObject): void {
    try {
      // Its shape was checked by `classifyMessage`; the rest is the SDK's to judge.
      this.onmessage?.(message as unknown as JSONRPCMessage);
    } catch (error) {
      this.onerror?.(error instanceof Error ? error : new Error(String(error)));
    }
  }
}

/** Replaces a response that JSON-RPC cannot carry, so that the caller is never left waiting. */
function responseText(message: JsonObject, id: RequestId): string {
  const { result } = message;
  if ("result" in message && !isJsonObject(result)) return unsendable(id, typeName(result));
  try {
    return JSON.stringify({ ...message, id });
  } catch (error) {
    return unsendable(id, "a value that JSON cannot hold", String(error));
  }
}

function unsendable(id: RequestId, received: string, reason?: string): string {
  return errorText(id, -32603, "The server's result cannot be sent", {
    expected: "object",
    received,
    reason,
  });
}

function closedText(id: RequestId): string {
  return errorText(id, -32603, "The server's connection is closed", { code: "bridge_closed" });
}
