import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import type { AgentError } from "../../../src/agent-kit/errors.ts";
import type { UnknownRecord } from "../../../src/agent-kit/json-rpc.ts";
import type { AgentOptions } from "../../../src/agent-kit/agent/options.ts";

/**
 * One step of a dialogue that the scripted CLI plays. In a pattern, objects may have more members than it names, `"*"`
 * fits everything, and a text such as `"$id"` takes what is there the first time and stands for it afterwards.
 */
export type Step =
  /** The CLI prints this message. */
  | { readonly cli: UnknownRecord }
  /** The CLI waits for a line of the host that fits. */
  | { readonly host: UnknownRecord }
  /** The CLI prints this text as it is. */
  | { readonly line: string }
  /** The CLI prints a line of so many bytes, without an end. */
  | { readonly bytes: number }
  | { readonly stderr: string }
  /** The CLI was started with these arguments, one after the other. */
  | { readonly argv: readonly string[] }
  | { readonly exit: number }
  /** The CLI waits until the host closes its input. */
  | { readonly eof: true }
  /** No line of the host so far fits. */
  | { readonly never: UnknownRecord }
  /** The CLI does nothing any more, whatever the host does. */
  | { readonly hang: true };

/** An agent's options for a dialogue, and what it warned of. */
export interface Scripted extends Disposable {
  readonly options: AgentOptions;
  readonly warnings: AgentError[];
}

/** Prepares the scripted CLI for a dialogue. It exits with code 9, and says why, when the host does not play its part. */
export function scripted(steps: readonly (Step | readonly Step[])[], options: AgentOptions = {}): Scripted {
  const folder = mkdtempSync(join(tmpdir(), "headgate-dialogue-"));
  const file = join(folder, "dialogue.json");
  writeFileSync(file, JSON.stringify(steps.flat()));
  const warnings: AgentError[] = [];
  return {
    options: {
      cliPath: resolve(import.meta.dirname, "scripted-cli.ts"),
      env: { SCRIPTED_DIALOGUE: file },
      onWarning: (warning) => warnings.push(warning),
      ...options,
    },
    warnings,
    [Symbol.dispose]: () => {
      rmSync(folder, { recursive: true });
    },
  };
}

/** The host initializes, and the CLI is content. */
export function opening(request: UnknownRecord = {}, response: UnknownRecord = {}): readonly Step[] {
  return [
    {
      host: { type: "control_request", request_id: "$init", request: { subtype: "initialize", ...request } },
    },
    { cli: { type: "control_response", response: { subtype: "success", request_id: "$init", response } } },
  ];
}

/** The CLI sends a message to a server and gets this `mcp_response`. */
export function mcp(id: string, server: string, message: UnknownRecord, response: UnknownRecord): readonly Step[] {
  return [mcpRequest(id, server, message), mcpResponse(id, response)];
}

/** The first half of `mcp`. */
export function mcpRequest(id: string, server: string, message: UnknownRecord): Step {
  const body = { subtype: "mcp_message", server_name: server, message: { jsonrpc: "2.0", ...message } };
  return { cli: { type: "control_request", request_id: id, request: body } };
}

/** The second half of `mcp`. */
export function mcpResponse(id: string, response: UnknownRecord): Step {
  return answered(id, { mcp_response: response });
}

/** The host answers a control request like this. */
export function answered(id: string, response: UnknownRecord): Step {
  return { host: { type: "control_response", response: { subtype: "success", request_id: id, response } } };
}

/** The handshake of a server, as the CLI makes it. */
export function handshake(server: string): readonly Step[] {
  const initialize = {
    id: 0,
    method: "initialize",
    params: {
      protocolVersion: "2025-11-25",
      capabilities: {},
      clientInfo: { name: "claude-code", version: "2.1.325" },
    },
  };
  return [
    ...mcp(`${server}-0`, server, initialize, { id: 0, result: { protocolVersion: "2025-11-25" } }),
    ...mcp(`${server}-n`, server, { method: "notifications/initialized" }, { result: {} }),
    ...mcp(`${server}-1`, server, { id: 1, method: "tools/list" }, { id: 1, result: { tools: "*" } }),
  ];
}

/** The CLI calls a tool, as it does. */
export function call(control: string, server: string, id: number, name: string, args: UnknownRecord = {}): Step {
  const _meta = { "claudecode/toolUseId": `toolu_${id}`, progressToken: id };
  return mcpRequest(control, server, { id, method: "tools/call", params: { name, arguments: args, _meta } });
}

/** The host asks for something by control request, and the CLI answers. */
export function asked(request: UnknownRecord, response: UnknownRecord = {}): readonly Step[] {
  const name = `$${JSON.stringify(request)}`;
  return [
    { host: { type: "control_request", request_id: name, request } },
    { cli: { type: "control_response", response: { subtype: "success", request_id: name, response } } },
  ];
}

/** The host says something. */
export function prompted(content: string): Step {
  return { host: { type: "user", message: { role: "user", content } } };
}

/** The turn ends well. */
export function result(text: string): Step {
  return {
    cli: {
      type: "result",
      subtype: "success",
      is_error: false,
      result: text,
      num_turns: 2,
      total_cost_usd: 0.01,
      session_id: "s",
      permission_denials: [],
    },
  };
}
