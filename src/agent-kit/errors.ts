/** The stable codes of all failures of the agent kit. */
export type AgentErrorCode =
  | "name_invalid"
  | "option_invalid"
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
  | "no_turn"
  | "agent_closed"
  | "aborted";

/** What an `AgentError` holds besides its code and message. */
export interface AgentErrorOptions {
  readonly details?: Readonly<Record<string, unknown>>;
  readonly cause?: unknown;
}

/** The kit's only error class: a stable code, and a message that says what happened and what to do. */
export class AgentError extends Error {
  readonly code: AgentErrorCode;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(code: AgentErrorCode, message: string, options: AgentErrorOptions = {}) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.name = "AgentError";
    this.code = code;
    this.details = options.details ?? {};
  }
}

/** Called with problems that do not end the agent: skipped lines, names that are too long, failed callbacks. */
export type OnWarning = (warning: AgentError) => void;
