/** Every failure of the agent kit, in one word that stays the same; the list is closed. */
export type AgentErrorCode =
  | "name_invalid"
  | "schema_unsupported"
  | "tool_exists"
  | "tools_not_declared"
  | "server_invalid"
  | "server_exists"
  | "server_not_found"
  | "instance_in_use"
  | "server_failed"
  | "bridge_closed"
  | "cli_not_found"
  | "cli_not_started"
  | "cli_exited"
  | "malformed_line"
  | "line_too_long"
  | "control_timeout"
  | "control_refused"
  | "callback_failed"
  | "name_too_long"
  | "agent_closed"
  | "aborted";

/** What may be known about a failure besides its code and message. */
export interface AgentErrorOptions {
  readonly details?: Readonly<Record<string, unknown>>;
  readonly cause?: unknown;
}

/** The kit's only error class: a stable code, and a message that says what happened and what to do next. */
export class AgentError extends Error {
  readonly code: AgentErrorCode;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(code: AgentErrorCode, message: string, extras: AgentErrorOptions = {}) {
    super(message, "cause" in extras ? { cause: extras.cause } : undefined);
    this.name = "AgentError";
    this.code = code;
    this.details = extras.details ?? {};
  }
}

/** Gets what went wrong without ending anything: skipped lines, names that are too long, failed callbacks. */
export type OnWarning = (warning: AgentError) => void;

/** The text of whatever was thrown. */
export function thrownMessage(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}
