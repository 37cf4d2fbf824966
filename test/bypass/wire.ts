import { closed, open } from "./vault.ts";

const names = new RegExp([closed.tool, closed.prompt, closed.resource].join("|"), "iu");

/** Methods that a client may send whatever the policy says of names. */
const harmless: ReadonlySet<unknown> = new Set([
  "initialize",
  "ping",
  "server/discover",
  "tools/list",
  "prompts/list",
  "resources/list",
  "resources/templates/list",
  "logging/setLevel",
  "subscriptions/listen",
]);

/**
 * What of a message that reached the server had no business there: every call but those of the open things, and every
 * mention of a closed one. Stricter than any server, so that one which reads names more loosely is safe as well.
 */
export function trespassIn(text: string): string | undefined {
  if (names.test(text)) return text;
  let message: unknown;
  try {
    message = JSON.parse(text);
  } catch {
    return `not JSON: ${text}`;
  }
  const method: unknown = Reflect.get(Object(message), "method");
  const params: unknown = Object(Reflect.get(Object(message), "params"));
  const keys = Object.keys(Object(message)).join(" ");
  if (!/^(?:jsonrpc|id|method|params|result|error| )*$/u.test(keys)) return text;
  const filter: unknown = Reflect.get(Object(params), "notifications");
  const wanted: unknown = Reflect.get(Object(filter), "resourceSubscriptions");
  if (Array.isArray(wanted) && wanted.some((uri) => uri !== open.resource)) return text;
  // An answer to a question, or a notification.
  if (method === undefined || harmless.has(method)) return undefined;
  if (typeof method === "string" && method.startsWith("notifications/")) return undefined;
  const name: unknown = Reflect.get(Object(params), "name") ?? Reflect.get(Object(params), "uri");
  const allowed = { "tools/call": open.tool, "prompts/get": open.prompt, "resources/read": open.resource };
  return allowed[method as keyof typeof allowed] === name && name !== undefined ? undefined : text;
}
