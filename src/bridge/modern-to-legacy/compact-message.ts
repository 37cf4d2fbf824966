import { messageBytes } from "../../protocol/batch.ts";
import type { Outline } from "../../protocol/json/outline.ts";
import type { Diagnostic, RequestId, RequestMessage } from "../../protocol/message.ts";
import { toMessage } from "../own-messages.ts";

/**
 * A request in as little memory as it can have, for when it may be kept long: an outline, which is larger than most
 * messages, is made when somebody looks, and can be let go.
 */
export class CompactRequest implements RequestMessage {
  readonly kind = "request";
  readonly id: RequestId;
  readonly method: string;
  readonly bytes: Buffer;
  readonly diagnostics: readonly Diagnostic[];
  #outline: Outline | undefined;

  /** The bytes are those of the request alone. */
  constructor(id: RequestId, method: string, bytes: Buffer, diagnostics: readonly Diagnostic[] = []) {
    this.id = id;
    this.method = method;
    this.bytes = bytes;
    this.diagnostics = diagnostics;
  }

  /** The same request with a copy of its own bytes, without the network's buffer around them. */
  static of(request: RequestMessage): CompactRequest {
    const bytes = Buffer.from(messageBytes(request));
    return new CompactRequest(request.id, request.method, bytes, request.diagnostics);
  }

  get outline(): Outline {
    return (this.#outline ??= toMessage(this.bytes).outline);
  }

  /** Forgets what can be made anew. */
  shrink(): void {
    this.#outline = undefined;
  }
}
