import { AgentError } from "./errors.ts";

/** Longest tool name, with and without the server in front, that models are sure to take. */
const maxNameLength = 64;

/**
 * Refuses a tool name that is not 1 to 64 letters, digits, `_` or `-`: the CLI would turn anything else into `_`, and two
 * tools could become one.
 */
export function assertToolName(name: string): void {
  if (/^[A-Za-z0-9_-]{1,64}$/u.test(name)) return;
  throw new AgentError(
    "name_invalid",
    `"${name}" is no name for a tool: use 1 to ${maxNameLength} letters, digits, "_" or "-"`,
    { details: { name } },
  );
}

/** Refuses a server key that is empty, has other characters, or has the `__` that separates server and tool. */
export function assertServerKey(key: string): void {
  if (/^[A-Za-z0-9_-]+$/u.test(key) && !key.includes("__")) return;
  const what = key === "" ? "an empty text" : `"${key}"`;
  throw new AgentError(
    "name_invalid",
    `${what} is no key for a server: use letters, digits, "-" and single "_" only, because tools are called mcp__<key>__<tool>`,
    { details: { key } },
  );
}

/** The name by which the model and permission rules know a tool; without a tool, the rule for the whole server. */
export function toolRule(serverKey: string, toolName?: string): string {
  return toolName === undefined ? `mcp__${serverKey}` : `mcp__${serverKey}__${toolName}`;
}

/** The warning for a tool whose full name is longer than models are sure to take; undefined if it fits. */
export function nameWarning(serverKey: string, toolName: string): AgentError | undefined {
  const name = toolRule(serverKey, toolName);
  if (name.length <= maxNameLength) return undefined;
  return new AgentError(
    "name_too_long",
    `the tool is called ${name} by the model, which is ${name.length} characters and more than ${maxNameLength}: shorten the key or the tool's name`,
    { details: { name, length: name.length } },
  );
}
