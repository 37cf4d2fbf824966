import type { Capabilities } from "../../protocol/capabilities.ts";
import { memberString, memberType, memberValue } from "../../protocol/json/read.ts";
import type { Message, RequestMessage } from "../../protocol/message.ts";

/** The list changes that a listen may ask for: its member, the notification, and the capability behind it. */
const listChanges = [
  ["toolsListChanged", "notifications/tools/list_changed", "tools"],
  ["promptsListChanged", "notifications/prompts/list_changed", "prompts"],
  ["resourcesListChanged", "notifications/resources/list_changed", "resources"],
] as const;

const resourceUpdated = "notifications/resources/updated";

/** What a listen wants to hear. */
export interface SubscriptionFilter {
  /** Methods of list changes. */
  readonly changes: ReadonlySet<string>;
  readonly uris: readonly string[];
}

/** The part of a listen's filter that a server with these capabilities can honour; undefined when there is no filter. */
export function honouredFilter(
  request: RequestMessage,
  capabilities: Capabilities,
): SubscriptionFilter | undefined {
  if (memberType(request, "params.notifications") !== "object") return undefined;
  // The check above has seen that it is an object.
  const wanted = memberValue(request, "params.notifications") as Readonly<Record<string, unknown>>;
  const changes = listChanges.filter(
    ([member, , capability]) =>
      wanted[member] === true && hasCapabilityFlag(capabilities, capability, "listChanged"),
  );
  const uris: unknown = wanted["resourceSubscriptions"];
  const isSubscribable = Array.isArray(uris) && hasCapabilityFlag(capabilities, "resources", "subscribe");
  return {
    changes: new Set(changes.map(([, method]) => method)),
    uris: isSubscribable ? [...new Set(uris.filter((uri) => typeof uri === "string"))] : [],
  };
}

/** The text of the honoured filter, for the acknowledgement. */
export function formatFilter({ changes, uris }: SubscriptionFilter): string {
  const members = listChanges.filter(([, method]) => changes.has(method)).map(([member]) => [member, true]);
  return JSON.stringify({
    ...Object.fromEntries(members),
    ...(uris.length === 0 ? {} : { resourceSubscriptions: uris }),
  });
}

/** Whether nothing is wanted, or nothing can be had. */
export function isEmptyFilter({ changes, uris }: SubscriptionFilter): boolean {
  return changes.size === 0 && uris.length === 0;
}

/** Whether a notification is one that listens can be about. */
export function isChangeNotification({ method }: Message): boolean {
  return method === resourceUpdated || listChanges.some(([, name]) => name === method);
}

/** Whether a filter lets a notification through; updates may be of something below what was subscribed to. */
export function matchesFilter({ changes, uris }: SubscriptionFilter, notification: Message): boolean {
  const { method } = notification;
  if (method !== resourceUpdated) return method !== undefined && changes.has(method);
  const updated = memberString(notification, "params.uri");
  return updated !== undefined && uris.some((uri) => isBelow(updated, uri));
}

function isBelow(uri: string, above: string): boolean {
  if (!uri.startsWith(above)) return false;
  return uri.length === above.length || above.endsWith("/") || "/?#".includes(uri.charAt(above.length));
}

function hasCapabilityFlag(capabilities: Capabilities, name: string, detail: string): boolean {
  const declared = capabilities[name];
  return typeof declared === "object" && declared !== null && Reflect.get(declared, detail) === true;
}
