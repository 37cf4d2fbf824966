import { spanOf } from "../../protocol/json/outline.ts";
import type { Span } from "../../protocol/json/outline.ts";
import type { Replacement } from "../../protocol/json/splice.ts";
import { typeAt } from "../../protocol/json/read.ts";
import type { NotificationMessage, RequestId, RequestMessage } from "../../protocol/message.ts";
import { memberSpan, splice } from "../../protocol/json/splice.ts";
import { membersOf } from "../../protocol/json/walk.ts";
import { CompactRequest } from "./compact-message.ts";
import { editObject } from "../object-edit.ts";
import type { MemberChange } from "../object-edit.ts";
import { respell } from "../own-messages.ts";

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
export function toLegacyRequest(message: RequestMessage, id: RequestId): CompactRequest {
  const { outline } = message;
  const replacements: Replacement[] = [];
  const idSpan = spanOf(outline, "id");
  if (idSpan !== undefined) replacements.push({ span: idSpan, bytes: Buffer.from(id.json) });
  const params = spanOf(outline, "params");
  const envelope = params === undefined ? undefined : lonelyEnvelope(message);
  if (envelope !== undefined) replacements.push({ span: envelope, bytes: nothing });
  else if (params !== undefined)
    replacements.push({ span: params, bytes: legacyParams(message.bytes, params, id) });
  return new CompactRequest(id, message.method, splice(message.bytes, outline, replacements));
}

const nothing = Buffer.alloc(0);

/** The whole member `_meta` of most requests, which is nothing but an envelope; undefined where more has to change. */
function lonelyEnvelope({ bytes, outline, diagnostics }: RequestMessage): Span | undefined {
  const meta = spanOf(outline, "params._meta");
  const isOther =
    diagnostics.length > 0 ||
    spanOf(outline, "params.inputResponses") !== undefined ||
    spanOf(outline, "params.requestState") !== undefined ||
    spanOf(outline, "params.task") !== undefined;
  if (isOther || meta === undefined || typeAt(bytes, meta.start) !== "object") return undefined;
  for (const { name } of membersOf(bytes, meta)) if (!name.startsWith(envelopePrefix)) return undefined;
  return memberSpan(bytes, meta, "_meta");
}

/** A modern notification without what only modern servers understand. */
export function toLegacyNotification(message: NotificationMessage): NotificationMessage {
  const params = spanOf(message.outline, "params");
  if (params === undefined) return message;
  const bytes = legacyParams(message.bytes, params, undefined);
  // Params were replaced by params; the kind is what it was.
  return respell(message, [{ span: params, bytes }]) as NotificationMessage;
}

function legacyParams(bytes: Buffer, params: Span, token: RequestId | undefined): Buffer {
  return editObject(bytes, params, (name, value) => {
    if (modernOnly.has(name)) return "drop";
    if (name !== "_meta" || typeAt(bytes, value.start) !== "object") return "keep";
    const meta = editObject(bytes, value, (key) => metaChange(key, token));
    return meta.length === emptyObject ? "drop" : { json: meta };
  });
}

const emptyObject = "{}".length;

function metaChange(key: string, token: RequestId | undefined): MemberChange {
  if (key.startsWith(envelopePrefix)) return "drop";
  return key === "progressToken" && token !== undefined ? { json: token.json } : "keep";
}
