import { type EditResult, removeAt, replaceMember, setAt } from "../../protocol/json/edit.ts";
import {
  type Message,
  messageBytes,
  type ParseLimits,
  type RequestId,
  type RequestMessage,
} from "../../protocol/message.ts";
import { type MessageMetadata, metadataOf } from "../../protocol/metadata.ts";
import { parse } from "../../protocol/parse.ts";
import type { Revision } from "../../protocol/revisions.ts";
import { type Exchange, withMessage } from "../exchange.ts";
import type { MessageChange } from "./action.ts";
import type { MessagePhase } from "./interceptor.ts";

/** A message as interceptors and policies inspect it. */
export class InspectedMessage {
  readonly exchange: Exchange;
  readonly message: Message;
  readonly direction: Exchange["direction"];
  readonly phase: MessagePhase;
  readonly request: RequestMessage | undefined;
  #metadata: MessageMetadata | undefined;

  private constructor(exchange: Exchange, message: Message, request: RequestMessage | undefined) {
    this.exchange = exchange;
    this.message = message;
    this.request = request;
    this.phase = message.method === undefined ? "response" : "request";
    this.direction = request === undefined ? exchange.direction : reverse(exchange.direction);
  }

  /** Inspects the message of an exchange. */
  static of(exchange: Exchange): InspectedMessage {
    return new InspectedMessage(exchange, exchange.message, undefined);
  }

  /** Inspects the response to the request of an exchange. */
  static answering(exchange: Exchange, request: RequestMessage, response: Message): InspectedMessage {
    return new InspectedMessage(exchange, response, request);
  }

  /** The same with a changed message. */
  with(message: Message): InspectedMessage {
    const { exchange, request } = this;
    return request === undefined
      ? InspectedMessage.of(withMessage(exchange, message))
      : new InspectedMessage(exchange, message, request);
  }

  get metadata(): MessageMetadata {
    const { session, revision } = this.exchange;
    return (this.#metadata ??= metadataOf(this.message, {
      revision,
      ...(session === undefined ? {} : { session: session.id }),
    }));
  }

  /** Its own method, or that of the request it answers. */
  get method(): string | undefined {
    return this.message.method ?? this.request?.method;
  }

  /** The id that an answer in its place must have; undefined where nobody waits for one. */
  get answerId(): RequestId | undefined {
    return this.request?.id ?? this.message.id;
  }
}

function reverse(direction: Exchange["direction"]): Exchange["direction"] {
  return direction === "client-to-server" ? "server-to-client" : "client-to-server";
}

/** The changed message, or why the change is refused. */
export type ChangeOutcome =
  | { readonly ok: true; readonly message: Message }
  | { readonly ok: false; readonly problem: string };

/** How a changed message is parsed. */
interface ChangeContext {
  readonly revision: Revision;
  readonly limits?: ParseLimits | undefined;
}

/**
 * Applies a change and parses the result as strictly as a received message. Kind and id must stay the same (SC-065); the id
 * keeps its exact text.
 */
export function applyChange(before: Message, change: MessageChange, context: ChangeContext): ChangeOutcome {
  const edit = editOf(before, change);
  if (!edit.ok) return edit;
  const parsed = parseOne(edit.bytes, context);
  if (!parsed.ok) return parsed;
  const after = parsed.message;
  if (after.kind !== before.kind) return refuse(`the kind cannot change from ${before.kind} to ${after.kind}`);
  if (before.id?.json === after.id?.json) return parsed;
  if (before.id === undefined || after.id === undefined || !isSame(before.id, after.id)) {
    return refuse("the id cannot change");
  }
  const restored = replaceMember(after, "id", before.id.json);
  return restored === undefined ? refuse("the id cannot change") : parseOne(restored, context);
}

function editOf(before: Message, change: MessageChange): EditResult {
  if ("bytes" in change) {
    const { buffer, byteOffset, byteLength } = change.bytes;
    return { ok: true, bytes: Buffer.from(buffer, byteOffset, byteLength) };
  }
  if ("json" in change) {
    const json = toJson(change.json);
    return json === undefined
      ? refuse("the new message cannot be written as JSON")
      : { ok: true, bytes: Buffer.from(json) };
  }
  const { set, remove, ...others } = change;
  const isPlan = isObjectOrAbsent(set) && (remove === undefined || Array.isArray(remove));
  if (!isPlan || Object.keys(others).length > 0)
    return refuse("a change has `set` and `remove`, or `json`, or `bytes`");
  // A member of a batch shares its buffer with the others.
  let edit: EditResult = { ok: true, bytes: messageBytes(before) };
  for (const [pointer, value] of Object.entries(set ?? {})) {
    const json = toJson(value);
    if (json === undefined) return refuse(`the value for ${pointer} cannot be written as JSON`);
    edit = setAt(edit.bytes, pointer, json);
    if (!edit.ok) return edit;
  }
  for (const pointer of remove ?? []) {
    edit = removeAt(edit.bytes, pointer);
    if (!edit.ok) return edit;
  }
  return edit;
}

/** Authors in plain JavaScript may pass anything. */
function isObjectOrAbsent(value: unknown): boolean {
  return value === undefined || (typeof value === "object" && value !== null && !Array.isArray(value));
}

function parseOne(bytes: Buffer, { revision, limits }: ChangeContext): ChangeOutcome {
  // Strict even in observe mode: we never write what two parsers could read differently.
  const outcome = parse(bytes, { revision, mode: "enforce", ...(limits === undefined ? {} : { limits }) });
  if (!outcome.ok) return refuse(outcome.failure.message);
  return outcome.form === "single" ? outcome : refuse("one message cannot become a batch");
}

/** Whether two ids are equal in JavaScript, which may have rounded or reformatted a number. */
function isSame(a: RequestId, b: RequestId): boolean {
  return a.key === b.key || JSON.parse(a.json) === JSON.parse(b.json);
}

function toJson(value: unknown): string | undefined {
  try {
    return JSON.stringify(value);
  } catch {
    // Cycles, BigInts and throwing getters are not JSON.
    return undefined;
  }
}

function refuse(problem: string): { readonly ok: false; readonly problem: string } {
  return { ok: false, problem };
}
