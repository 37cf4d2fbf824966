import { type Span, spanOf } from "../../protocol/json/outline.ts";
import { typeAt } from "../../protocol/json/read.ts";
import type { NotificationMessage, RequestId, RequestMessage } from "../../protocol/message.ts";
import { CompactRequest } from "./compact-request.ts";
import {
  editObject,
  isEmptyObject,
  type MemberChange,
  memberSpan,
  type Replacement,
  splice,
} from "../../protocol/json/edit.ts";
import { withReplacements } from "../synthesize.ts";

/** What every key of the modern envelope begins with (MCP 2026-07-28, Base protocol, `_meta`). */
const envelopePrefix = "io.modelcontextprotocol/";

/**
 * Members of params that only modern servers understand, and `task`, which modern ones must ignore: a legacy server
 * would make a task of the call, and the client could not follow it.
 */
const modernOnly: ReadonlySet<string> = new Set(["inputResponses", "requestState", "task"]);

/**
 * A modern request as a legacy session wants it: under the id of that session, without the envelope. A progress token
 * becomes the id, because tokens of different clients may be the same; all other members stay as they are.
 */
export function toLegacyRequest(message: RequestMessage, id: RequestId): LegacyRequest {
  return new LegacyRequest(message, id);
}

/** A request for a legacy session, which can be made again from the client's as long as somebody has that. */
export class LegacyRequest extends CompactRequest {
  #source: RequestMessage;

  constructor(source: RequestMessage, id: RequestId) {
    super(id, source.method, legacyBytes(source, id));
    this.#source = source;
  }

  /** Takes as little room as it can where the client's request is kept in its smallest form. */
  restOn(request: RequestMessage, smallest: CompactRequest): void {
    if (this.#source === request) this.#source = smallest;
    if (this.#source instanceof CompactRequest) this.forget();
    else this.shrink();
  }

  protected override remake(): Buffer {
    return legacyBytes(this.#source, this.id);
  }
}

function legacyBytes(message: RequestMessage, id: RequestId): Buffer {
  const { bytes, outline } = message;
  const idSpan = spanOf(outline, "id");
  const params = spanOf(outline, "params");
  const edits: Replacement[] = idSpan === undefined ? [] : [{ span: idSpan, bytes: Buffer.from(id.json) }];
  if (params !== undefined) {
    edits.push(envelopeEdit(message, id) ?? { span: params, bytes: legacyParams(bytes, params, id) });
  }
  return splice(bytes, outline, edits);
}

/** The members of most `_meta` objects, and how much room their names take with quotes and colon. */
const usualMeta = (
  [
    "params._meta.io.modelcontextprotocol/protocolVersion",
    "params._meta.io.modelcontextprotocol/clientCapabilities",
    "params._meta.io.modelcontextprotocol/clientInfo",
    "params._meta.io.modelcontextprotocol/logLevel",
    "params._meta.progressToken",
  ] as const
).map((member) => ({ member, room: member.length - "params._meta.".length + '"":'.length }));

/** What most requests need: no `_meta`, or only the progress token in it; undefined where more has to change. */
function envelopeEdit({ bytes, outline, diagnostics }: RequestMessage, id: RequestId): Replacement | undefined {
  const meta = spanOf(outline, "params._meta");
  const isOther =
    diagnostics.length > 0 ||
    spanOf(outline, "params.inputResponses") !== undefined ||
    spanOf(outline, "params.requestState") !== undefined ||
    spanOf(outline, "params.task") !== undefined;
  if (isOther || meta === undefined || typeAt(bytes, meta.start) !== "object") return undefined;
  // One brace more than commas, and one at the end: if the usual members fill it, there are no others.
  let room = 1;
  for (const { member, room: name } of usualMeta) {
    const value = spanOf(outline, member);
    if (value !== undefined) room += name + (value.end - value.start) + 1;
  }
  if (room !== meta.end - meta.start) return undefined;
  if (spanOf(outline, "params._meta.progressToken") !== undefined)
    return { span: meta, bytes: Buffer.from(`{"progressToken":${id.json}}`) };
  const whole = memberSpan(bytes, meta, "_meta");
  return whole === undefined ? undefined : { span: whole, bytes: Buffer.alloc(0) };
}

/** A modern notification without what only modern servers understand. */
export function toLegacyNotification(message: NotificationMessage): NotificationMessage {
  const params = spanOf(message.outline, "params");
  if (params === undefined) return message;
  const bytes = legacyParams(message.bytes, params, undefined);
  // Params were replaced by params; the kind is what it was.
  return withReplacements(message, [{ span: params, bytes }]) as NotificationMessage;
}

function legacyParams(bytes: Buffer, params: Span, token: RequestId | undefined): Buffer {
  return editObject(bytes, params, (name, value) => {
    if (modernOnly.has(name)) return "remove";
    if (name !== "_meta" || typeAt(bytes, value.start) !== "object") return "keep";
    const meta = editObject(bytes, value, (key) => metaChange(key, token));
    const isEmpty = isEmptyObject(meta, { start: 0, end: meta.length });
    return isEmpty ? "remove" : { json: meta };
  });
}

function metaChange(key: string, token: RequestId | undefined): MemberChange {
  if (key.startsWith(envelopePrefix)) return "remove";
  return key === "progressToken" && token !== undefined ? { json: token.json } : "keep";
}
