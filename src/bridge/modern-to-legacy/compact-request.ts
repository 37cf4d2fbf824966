import { GatewayError } from "../../errors.ts";
import { type Diagnostic, messageBytes, type RequestId, type RequestMessage } from "../../protocol/message.ts";
import type { Outline } from "../../protocol/json/outline.ts";
import { synthesizeMessage } from "../synthesize.ts";

/**
 * A request in as little memory as it can have, for when it may be kept long. Bytes that nobody uses for a while are
 * kept as text of single bytes, which has neither a buffer nor the network's memory around it.
 */
export class CompactRequest implements RequestMessage {
  readonly kind = "request";
  readonly id: RequestId;
  readonly method: string;
  readonly diagnostics: readonly Diagnostic[];
  #bytes: Buffer | string | undefined;
  #outline: Outline | undefined;

  /** The bytes are those of the request alone. */
  constructor(id: RequestId, method: string, bytes: Buffer | string, diagnostics: readonly Diagnostic[] = none) {
    this.id = id;
    this.method = method;
    this.diagnostics = diagnostics;
    this.#bytes = bytes;
  }

  /** The same request, in its smallest form. */
  static of(request: RequestMessage): CompactRequest {
    if (request instanceof CompactRequest) {
      request.shrink();
      return request;
    }
    const text = messageBytes(request).toString("latin1");
    return new CompactRequest(request.id, request.method, text, request.diagnostics);
  }

  get bytes(): Buffer {
    this.#bytes ??= this.remake();
    if (typeof this.#bytes === "string") this.#bytes = Buffer.from(this.#bytes, "latin1");
    return this.#bytes;
  }

  get outline(): Outline {
    return (this.#outline ??= new LateOutline(this.bytes));
  }

  /** Forgets what can be made anew. */
  shrink(): void {
    this.#outline = undefined;
    if (this.#bytes instanceof Buffer) this.#bytes = this.#bytes.toString("latin1");
  }

  /** Forgets even the bytes; only for those that can be made again. */
  protected forget(): void {
    this.#outline = undefined;
    this.#bytes = undefined;
  }

  /** The bytes anew, after they were forgotten. */
  protected remake(): Buffer {
    throw new GatewayError("internal", "a request has lost its bytes");
  }
}

const none: readonly Diagnostic[] = [];

/** A message that is nobody's to look at just now, so that it may change its form. */
type Resting = { -readonly [Name in keyof RequestMessage]: RequestMessage[Name] };

/**
 * Makes a message small where it is, for when others hold on to it long: its own bytes without the network's buffer
 * around them, and an outline that is made anew when somebody looks.
 */
export function compact(message: RequestMessage): void {
  if (message instanceof CompactRequest) {
    message.shrink();
    return;
  }
  // What it says stays the same; only that gives the right to write to it.
  const resting = message as Resting;
  resting.bytes = Buffer.from(messageBytes(message));
  resting.outline = new LateOutline(resting.bytes);
}

/** The outline of bytes that are one message and nothing else, made when somebody looks for its members. */
class LateOutline implements Outline {
  readonly #bytes: Buffer;
  #read: Outline | undefined;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get ok(): true {
    return true;
  }

  get start(): number {
    return 0;
  }

  get end(): number {
    return this.#bytes.length;
  }

  get spans(): readonly number[] {
    return this.#made().spans;
  }

  get duplicateAt(): number {
    return this.#made().duplicateAt;
  }

  get duplicateId(): boolean {
    return this.#made().duplicateId;
  }

  get caseVariantAt(): number {
    return this.#made().caseVariantAt;
  }

  get loneSurrogateAt(): number {
    return this.#made().loneSurrogateAt;
  }

  get loneSurrogateInName(): boolean {
    return this.#made().loneSurrogateInName;
  }

  #made(): Outline {
    return (this.#read ??= synthesizeMessage(this.#bytes).outline);
  }
}
