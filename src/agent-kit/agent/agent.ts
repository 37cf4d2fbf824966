import { systemTimer } from "../../lib/clock.ts";
import { bridgeControlChannel, type ControlAnswer, type ControlBridge } from "../control/control-bridge.ts";
import { createControlChannel } from "../control/control-channel.ts";
import { AgentError, type OnWarning } from "../errors.ts";
import { thrownMessage } from "../../lib/thrown-message.ts";
import type { UnknownRecord } from "../json-rpc.ts";
import { checkServers } from "../tools/server-config.ts";
import { type AgentServers, captureManifests, createAgentServers } from "./agent-servers.ts";
import { type CanUseTool, createHookRegistry, decidePermission, type HookRegistry } from "./callbacks.ts";
import { type CliProcess, findCli, startCliProcess } from "./cli-process.ts";
import { type AgentMessage, type AgentResult, parseAgentMessage } from "./messages.ts";
import { type AgentOptions, cliArguments, type PermissionMode, checkOptions } from "./options.ts";
import { createTurnQueue, type UserContent } from "./turn-queue.ts";

/** A running agent: one CLI process with its servers, for any number of turns. */
export interface Agent extends AsyncDisposable {
  /**
   * Sends a prompt and yields the messages of the turn, the result last. Sends nothing before the first message is
   * requested. Turns run one after the other; leaving one early interrupts it.
   */
  send(content: UserContent): AsyncGenerator<AgentMessage, void, void>;
  /** Sends a prompt and resolves with the result of the turn. */
  ask(content: UserContent): Promise<AgentResult>;
  /**
   * Adds to the running turn: the model reads it after the tools that run now, and its messages come in that turn.
   * Rejects with `no_turn` if none runs.
   */
  steer(content: UserContent): Promise<void>;
  /** Stops the running turn: its tools are aborted, and its result still comes. */
  interrupt(): Promise<void>;
  setPermissionMode(mode: PermissionMode): Promise<void>;
  setModel(model: string): Promise<void>;
  readonly servers: AgentServers;
  /** The CLI's answer to `initialize`: commands, models, version. */
  readonly info: UnknownRecord;
  /**
   * Closes the agent: aborts running tools, stops the CLI and disconnects the servers, which stay usable. The CLI may
   * finish its work unless `force` is set.
   */
  close(options?: { readonly force?: boolean }): Promise<void>;
}

const defaults = { controlTimeoutMs: 60_000, closeTimeoutMs: 5000, maxLineBytes: 16 * 1024 * 1024 };

/**
 * Starts an agent; resolves when its CLI is ready for the first turn. Invalid options reject before a process starts.
 *
 * @example
 * ```ts
 * await using agent = await startAgent({
 *   mcpServers: { shop: { type: "sdk", name: "shop", instance: shop } },
 *   allowedTools: ["mcp__shop"],
 * });
 * const result = await agent.ask("Do we have tea?");
 * ```
 */
export async function startAgent(options: AgentOptions = {}): Promise<Agent> {
  checkOptions(options);
  const { controlTimeoutMs, closeTimeoutMs, maxLineBytes } = { ...defaults, ...options };
  const { onWarning = printWarning, env: environment = process.env, signal } = options;
  const initial = checkServers(options.mcpServers);
  const command = findCli(options.cliPath, environment);
  const hooks = createHookRegistry(options.hooks, options.onHookFailure, onWarning);
  if (signal?.aborted === true) throw agentAborted(signal);

  let cli: CliProcess | undefined;
  const write = async (line: string): Promise<void> => {
    if (cli === undefined) throw new AgentError("agent_closed", "the CLI is not running");
    await cli.write(line);
  };
  const channel = createControlChannel({
    write,
    onRequest: async (request, requestSignal) =>
      answerRequest({ bridge, hooks, canUseTool: options.canUseTool, onWarning }, request, requestSignal),
    onMessage: (message) => turns.push(parseAgentMessage(message)),
    onWarning,
    timeoutMs: controlTimeoutMs,
    setTimer: systemTimer,
  });
  const sendCommand = async (request: UnknownRecord): Promise<void> => {
    await channel.request(request);
  };
  const interrupt = async (): Promise<void> => sendCommand({ subtype: "interrupt" });
  const turns = createTurnQueue({ write, interrupt });
  const bridge = await bridgeControlChannel({
    servers: initial.inProcess,
    send: channel.send,
    onWarning,
    closeTimeoutMs,
  });

  let closing: Promise<void> | undefined;
  async function stop(error: AgentError, force: boolean): Promise<void> {
    // Requests and turns fail first, so that nobody waits for the process to end.
    turns.fail(error);
    channel.fail(error);
    signal?.removeEventListener("abort", onAbort);
    await bridge.close();
    await cli?.close(force);
  }
  const close = async (error = agentClosed(), force = false): Promise<void> => {
    closing ??= stop(error, force);
    await closing;
  };
  /** Closes without waiting; a later `close` waits for the same end. */
  function end(reason: AgentError): void {
    close(reason, true).catch((cause: unknown) => {
      onWarning(new AgentError("agent_closed", `closing the agent failed: ${thrownMessage(cause)}`, { cause }));
    });
  }
  function onAbort(): void {
    if (signal !== undefined) end(agentAborted(signal));
  }

  try {
    const manifests =
      options.sendManifests === true ? await captureManifests(bridge, initial.inProcess.keys()) : undefined;
    cli = startCliProcess({
      command: { ...command, args: [...command.args, ...cliArguments(options, initial)] },
      cwd: options.cwd,
      environment,
      maxLineBytes,
      closeTimeoutMs,
      onLine: (line) => channel.receive(line),
      onStderr: options.onStderr,
      onEnd: end,
    });
    signal?.addEventListener("abort", onAbort);
    const info = await channel.request({
      subtype: "initialize",
      hooks: hooks.registration,
      ...(options.announce === "mcp-config" ? {} : bridge.announcement()),
      ...(manifests !== undefined && { sdkMcpServerManifests: manifests }),
    });
    return {
      send: turns.run,
      async ask(content) {
        for await (const message of turns.run(content)) if (message.type === "result") return message;
        throw agentClosed();
      },
      steer: (text) => turns.steer(text),
      interrupt,
      setPermissionMode: async (mode) => sendCommand({ subtype: "set_permission_mode", mode }),
      setModel: async (model) => sendCommand({ subtype: "set_model", model }),
      servers: createAgentServers({ channel, bridge, initial, onWarning }),
      info,
      close: async ({ force = false } = {}) => close(agentClosed(), force),
      [Symbol.asyncDispose]: async () => close(),
    };
  } catch (error) {
    await close(error instanceof AgentError ? error : agentClosed(), true);
    throw error;
  }
}

/** Input of `query`. */
export interface QueryInput {
  /** One prompt, or several that follow each other in one conversation. */
  readonly prompt: UserContent | AsyncIterable<UserContent>;
  readonly options?: AgentOptions;
}

/**
 * Runs an agent for one prompt or a few: starts the CLI, yields its messages, and closes everything after the last
 * result. A failure rejects the iteration; leaving the iteration closes the agent.
 *
 * @example
 * ```ts
 * for await (const message of query({ prompt: "Do we have tea?", options: { mcpServers } })) {
 *   if (message.type === "assistant") console.log(message.text);
 * }
 * ```
 */
export async function* query({ prompt, options }: QueryInput): AsyncGenerator<AgentMessage, void, void> {
  const agent = await startAgent(options);
  let done = false;
  try {
    for await (const content of isStream(prompt) ? prompt : [prompt]) {
      const turn = agent.send(content);
      // Not `for await`, which would interrupt the turn and wait for its result when the caller leaves.
      for (let step = await turn.next(); step.done !== true; step = await turn.next()) yield step.value;
    }
    done = true;
  } finally {
    await agent.close({ force: !done });
  }
}

function isStream(prompt: QueryInput["prompt"]): prompt is AsyncIterable<UserContent> {
  return typeof prompt === "object" && Symbol.asyncIterator in prompt;
}

interface RequestHandlers {
  readonly bridge: ControlBridge;
  readonly hooks: HookRegistry;
  readonly canUseTool: CanUseTool | undefined;
  readonly onWarning: OnWarning;
}

/** Answers a control request of the CLI. */
async function answerRequest(
  { bridge, hooks, canUseTool, onWarning }: RequestHandlers,
  request: UnknownRecord,
  signal: AbortSignal,
): Promise<ControlAnswer> {
  switch (request["subtype"]) {
    case "mcp_message":
      return bridge.answer(request);
    case "can_use_tool":
      if (canUseTool === undefined) return { ok: false, error: "there is no permission callback" };
      return toControlAnswer(await decidePermission(canUseTool, request, signal, onWarning));
    case "hook_callback":
      return toControlAnswer(await hooks.run(request, signal));
    default:
      return { ok: false, error: `Unsupported control request subtype: ${String(request["subtype"])}` };
  }
}

/** Throws where a callback returned something that is not JSON; the CLI then gets an error answer. */
function toControlAnswer(body: UnknownRecord): ControlAnswer {
  return { ok: true, json: JSON.stringify(body) };
}

function agentClosed(): AgentError {
  return new AgentError("agent_closed", "the agent is closed; start another one");
}

function agentAborted({ reason }: AbortSignal): AgentError {
  return new AgentError("aborted", "the agent was aborted by its signal", { cause: reason });
}

const printWarning: OnWarning = ({ code, message }) => console.error(`headgate agent: ${code}: ${message}`);
