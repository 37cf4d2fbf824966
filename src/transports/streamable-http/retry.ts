import type { Message } from "../../protocol/message.ts";

/**
 * Methods that may be sent again when a connection died before any byte of an answer came: they read, or they shake
 * hands. `tools/call` and answers to the server are not among them: the first try may have been carried out.
 */
const retryableMethods: ReadonlySet<string> = new Set([
  "initialize",
  "ping",
  "server/discover",
  "tools/list",
  "prompts/list",
  "prompts/get",
  "resources/list",
  "resources/templates/list",
  "resources/read",
  "completion/complete",
  "logging/setLevel",
  "tasks/get",
  "tasks/list",
]);

/** Errors that say that nothing was sent at all: the connection itself was refused or could not be made. */
const connectErrors: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "ENOTFOUND",
  "EAI_AGAIN",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/**
 * The rule for a request whose connection died before an answer began, most often a keep-alive socket that the
 * upstream closed just then: sent once more if its method may be repeated; anything else is reported.
 */
export function isRetryable(message: Message, error: Error): boolean {
  const code: unknown = Reflect.get(Object(error.cause), "code");
  if (typeof code === "string" && connectErrors.has(code)) return false;
  return message.method !== undefined && retryableMethods.has(message.method);
}
