import { editObject, type MemberChange, type Replacement } from "../../protocol/json/edit.ts";
import { type Span, spanOf } from "../../protocol/json/outline.ts";
import { typeAt } from "../../protocol/json/read.ts";
import type { NotificationMessage, RequestId, RequestMessage } from "../../protocol/message.ts";
import { withReplacements } from "../synthesize.ts";
import { CompactRequest } from "./compact-request.ts";

/** The prefix of all keys of the modern envelope (MCP 2026-07-28, Base protocol, `_meta`). */
const envelopePrefix = "io.modelcontextprotocol/";

/**
 * Members of params that a legacy server must not see. It would turn a call with `task` into a task, which a modern
 * client cannot follow.
 */
const modernOnly: ReadonlySet<string> = new Set(["inputResponses", "requestState", "task"]);

/**
 * A modern request in its legacy form: under the session's id and without the envelope. The progress token becomes the
 * id, because clients that share the session may use the same token. All other bytes stay as they are.
 */
export function toLegacyRequest(message: RequestMessage, id: RequestId): CompactRequest {
  const { bytes, outline } = message;
  const idSpan = spanOf(outline, "id");
  const params = spanOf(outline, "params");
  const replacements: Replacement[] = idSpan === undefined ? [] : [{ span: idSpan, bytes: Buffer.from(id.json) }];
  if (params !== undefined) replacements.push({ span: params, bytes: legacyParams(bytes, params, id) });
  return CompactRequest.from(withReplacements(message, replacements));
}

/** A modern notification without what only modern servers understand. */
export function toLegacyNotification(message: NotificationMessage): NotificationMessage {
  const params = spanOf(message.outline, "params");
  if (params === undefined) return message;
  return withReplacements(message, [{ span: params, bytes: legacyParams(message.bytes, params, undefined) }]);
}

function legacyParams(bytes: Buffer, params: Span, token: RequestId | undefined): Buffer {
  return editObject(bytes, params, (name, value) => {
    if (modernOnly.has(name)) return "remove";
    if (name !== "_meta" || typeAt(bytes, value.start) !== "object") return "keep";
    let isEmpty = true;
    const meta = editObject(bytes, value, (key) => {
      const change = metaChange(key, token);
      isEmpty &&= change === "remove";
      return change;
    });
    return isEmpty ? "remove" : { json: meta };
  });
}

function metaChange(key: string, token: RequestId | undefined): MemberChange {
  if (key.startsWith(envelopePrefix)) return "remove";
  return key === "progressToken" && token !== undefined ? { json: token.json } : "keep";
}
