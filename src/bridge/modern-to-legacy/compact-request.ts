// Needed by bench bridge: "parked call over HTTP".
import type { Outline } from "../../protocol/json/outline.ts";
import type { Diagnostic } from "../../protocol/diagnostics.ts";
import { messageBytes, type RequestId, type RequestMessage } from "../../protocol/message.ts";
import { synthesizeRequest } from "../../core/synthesize.ts";

/**
 * A request that may be held for minutes. `compact` drops the parsed form and keeps the bytes as a one-byte string,
 * which needs neither a Buffer nor the network chunk around it; the next read parses them again.
 */
export class CompactRequest implements RequestMessage {
  readonly kind = "request";
  readonly id: RequestId;
  readonly method: string;
  readonly diagnostics: readonly Diagnostic[];
  #content: RequestMessage | string;

  private constructor(request: RequestMessage) {
    this.id = request.id;
    this.method = request.method;
    this.diagnostics = request.diagnostics;
    this.#content = request;
  }

  static from(request: RequestMessage): CompactRequest {
    return request instanceof CompactRequest ? request : new CompactRequest(request);
  }

  get bytes(): Buffer {
    return this.#parsed().bytes;
  }

  get outline(): Outline {
    return this.#parsed().outline;
  }

  compact(): void {
    if (typeof this.#content !== "string") this.#content = messageBytes(this.#content).toString("latin1");
  }

  #parsed(): RequestMessage {
    if (typeof this.#content === "string") this.#content = synthesizeRequest(Buffer.from(this.#content, "latin1"));
    return this.#content;
  }
}
