import { AgentError } from "./errors.ts";

/** The longest tool name that every model accepts, with and without the server prefix. */
const maxNameLength = 64;

/**
 * Refuses a tool name that is not 1 to 64 letters, digits, `_` or `-`: the CLI replaces other characters by `_`, which
 * could merge two tools.
 */
export function assertToolName(name: string): void {
  if (/^[A-Za-z0-9_-]{1,64}$/u.test(name)) return;
  throw new AgentError(
    "name_invalid",
    `"${name}" is not a valid tool name: use 1 to ${maxNameLength} letters, digits, "_" or "-"`,
    { details: { name } },
  );
}

/** Refuses a server key that is empty, has other characters, or contains `__`, which separates server and tool. */
export function assertServerKey(key: string): void {
  if (/^[A-Za-z0-9_-]+$/u.test(key) && !key.includes("__")) return;
  throw new AgentError(
    "name_invalid",
    `"${key}" is not a valid server key: use letters, digits, "-" and single "_", because tools are named mcp__<key>__<tool>`,
    { details: { key } },
  );
}

/** The name of a tool for the model and for permission rules; without a tool, the rule for the whole server. */
export function toolRule(serverKey: string, toolName?: string): string {
  return toolName === undefined ? `mcp__${serverKey}` : `mcp__${serverKey}__${toolName}`;
}

/** The warning about a full tool name that is too long; undefined if it fits. */
export function nameWarning(serverKey: string, toolName: string): AgentError | undefined {
  const name = toolRule(serverKey, toolName);
  if (name.length <= maxNameLength) return undefined;
  return new AgentError(
    "name_too_long",
    `the full tool name ${name} has ${name.length} characters, more than ${maxNameLength}: shorten the server key or the tool name`,
    { details: { name, length: name.length } },
  );
}
