import { isObject } from "../../lib/is-object.ts";
import { slotOf } from "../../protocol/json/outline.ts";
import { memberValue } from "../../protocol/json/read.ts";
import type { Message } from "../../protocol/message.ts";

const none: readonly string[] = [];
/** Every content block with a resource has this. */
const marker = Buffer.from('"resource');
/** URIs that are remembered of one result. */
const maxUris = 1000;
/** One of these is in every result with content blocks; a task has the result of its call inside. */
const slots = [slotOf("result.content"), slotOf("result.messages"), slotOf("result.taskId")];

/** The URIs of resource links and embedded resources in a result, so that a client that reads one reaches its server. */
export function mentionedUris(message: Message): readonly string[] {
  const { bytes, outline } = message;
  if (slots.every((slot) => (outline.spans[slot] ?? -1) < 0)) return none;
  if (!bytes.includes(marker, outline.start)) return none;
  const uris: string[] = [];
  collect(memberValue(message, "result"), uris);
  return uris;
}

function collect(value: unknown, uris: string[]): void {
  if (uris.length >= maxUris) return;
  if (Array.isArray(value)) for (const one of value) collect(one, uris);
  if (!isObject(value)) return;
  const { type, uri, resource } = value;
  const found =
    type === "resource_link" ? uri : type === "resource" && isObject(resource) ? resource["uri"] : undefined;
  if (typeof found === "string") uris.push(found);
  else for (const name of ["content", "messages", "result"]) collect(value[name], uris);
}
