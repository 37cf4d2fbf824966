import type { JSONRPCMessage, RequestId, Transport } from "@modelcontextprotocol/server";

import { isObject } from "../../lib/is-object.ts";
import { ack, classifyMessage, errorText, type UnknownRecord, typeName } from "../json-rpc.ts";

interface PendingResponse {
  /** The id that the caller gave; see `#uniqueId`. */
  readonly id: RequestId;
  readonly reply: (text: string) => void;
}

/**
 * The SDK's transport over a control channel. `receive` takes a message of the CLI and resolves with the JSON text of
 * the answer; messages that the server initiates go out through `forward`. The SDK dispatches every MCP method.
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
    // The channel is already open.
  }

  /** Requests that the server has not answered yet. */
  get pending(): number {
    return this.#waiting.size;
  }

  /** Passes a message to the server; resolves with the JSON text of the answer and never rejects. */
  async receive(received: unknown): Promise<string> {
    const incoming = classifyMessage(received);
    if (incoming.kind === "invalid")
      return errorText(incoming.id, -32600, "Invalid Request", { problem: incoming.problem });
    if (this.#closed) return incoming.kind === "request" ? closedText(incoming.id) : ack;
    if (incoming.kind === "request") return this.#request(incoming.id, incoming.message);
    this.#deliver(incoming.kind === "notification" ? this.#cancelPending(incoming.message) : incoming.message);
    return ack;
  }

  /** Called by the server. A response answers its request, or is dropped if that was cancelled. */
  async send(message: JSONRPCMessage): Promise<void> {
    // Checks the shape first: a request of the server may have the id of a pending call.
    if ("method" in message) {
      await this.#forward(message);
      return;
    }
    const waiting = message.id === undefined ? undefined : this.#waiting.get(message.id);
    if (message.id === undefined || waiting === undefined) return;
    this.#waiting.delete(message.id);
    waiting.reply(responseText(message, waiting.id));
  }

  /** Ends the connection: aborts the calls and answers them with an error. */
  async close(): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    for (const { id, reply } of this.#waiting.values()) reply(closedText(id));
    this.#waiting.clear();
    this.onclose?.();
  }

  async #request(id: RequestId, message: UnknownRecord): Promise<string> {
    const { promise, resolve } = Promise.withResolvers<string>();
    const uniqueId = this.#uniqueId(id);
    this.#waiting.set(uniqueId, { id, reply: resolve });
    this.#deliver(uniqueId === id ? message : { ...message, id: uniqueId });
    return promise;
  }

  /**
   * A client that starts over reuses ids of calls that still run, so the server gets other ids for its new requests.
   */
  #uniqueId(id: RequestId): RequestId {
    if (!this.#waiting.has(id)) return id;
    this.#aliases += 1;
    return this.#uniqueId(`${id} again ${this.#aliases}`);
  }

  /** The SDK never answers a cancelled request, so its pending entry is settled here. */
  #cancelPending(message: UnknownRecord): UnknownRecord {
    const { method, params } = message;
    if (method !== "notifications/cancelled" || !isObject(params)) return message;
    const found = [...this.#waiting].findLast(([, waiting]) => waiting.id === params["requestId"]);
    if (found === undefined) return message;
    const [requestId, { reply }] = found;
    this.#waiting.delete(requestId);
    reply(ack);
    return { ...message, params: { ...params, requestId } };
  }

  #deliver(message: UnknownRecord): void {
    try {
      // `classifyMessage` has checked the shape; the SDK validates the rest.
      this.onmessage?.(message as unknown as JSONRPCMessage);
    } catch (error) {
      this.onerror?.(error instanceof Error ? error : new Error(String(error)));
    }
  }
}

/** Replaces a response that cannot be sent as JSON-RPC, so that the caller always gets one. */
function responseText(message: UnknownRecord, id: RequestId): string {
  const { result } = message;
  if ("result" in message && !isObject(result)) return invalidResponse(id, typeName(result));
  try {
    return JSON.stringify({ ...message, id });
  } catch (error) {
    return invalidResponse(id, "a value that JSON cannot hold", String(error));
  }
}

function invalidResponse(id: RequestId, received: string, reason?: string): string {
  return errorText(id, -32603, "The server's result cannot be sent", { expected: "object", received, reason });
}

function closedText(id: RequestId): string {
  return errorText(id, -32603, "The server's connection is closed", { code: "bridge_closed" });
}
