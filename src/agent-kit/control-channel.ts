import type { SetTimer } from "../core/exchange.ts";
import type { ControlAnswer } from "./control-bridge.ts";
import { AgentError, thrownMessage, type OnWarning } from "./errors.ts";
import { isJsonObject, type JsonObject } from "./json-rpc.ts";

/** What a control channel is made of. */
export interface ControlChannelDeps {
  /** Writes one line; lines leave in the order of the calls. */
  readonly write: (line: string) => Promise<void>;
  /** Answers a request of the CLI; the signal aborts when the CLI takes the request back. */
  readonly onRequest: (request: JsonObject, signal: AbortSignal) => Promise<ControlAnswer>;
  /** Gets every message that is no part of the control protocol. */
  readonly onMessage: (message: JsonObject) => void;
  readonly onWarning: OnWarning;
  /** How long a request of ours may wait for its answer. */
  readonly timeoutMs: number;
  readonly setTimer: SetTimer;
}

/** The control protocol of the CLI: requests both ways over lines of JSON, next to the messages of the agent. */
export interface ControlChannel {
  /** Sends a request; resolves with the body of the CLI's answer. */
  readonly request: (request: JsonObject) => Promise<JsonObject>;
  /** Sends a request whose answer matters only if it is a refusal; resolves when it is written. */
  readonly send: (request: JsonObject) => Promise<void>;
  /** Takes one line of the CLI. */
  readonly receive: (line: string) => void;
  /** Ends the channel: every request that waits is rejected with this error, and so is every later one. */
  readonly fail: (error: AgentError) => void;
}

interface PendingRequest {
  readonly settle: (answer: JsonObject) => void;
  readonly reject: (error: AgentError) => void;
}

/** Makes a control channel over lines. */
export function createControlChannel(options: ControlChannelDeps): ControlChannel {
  const { write, onRequest, onMessage, onWarning, timeoutMs, setTimer } = options;
  const waiting = new Map<string, PendingRequest>();
  const answering = new Map<string, AbortController>();
  let requests = 0;
  let failure: AgentError | undefined;

  async function request(body: JsonObject): Promise<JsonObject> {
    const { answer, written } = begin(body);
    // Awaited first, so that a failed write is told as such.
    await Promise.race([written, answer]);
    return answer;
  }

  async function send(body: JsonObject): Promise<void> {
    const { answer, written } = begin(body);
    answer.catch((error: unknown) => {
      if (failure === undefined && error instanceof AgentError) onWarning(error);
    });
    await written;
  }

  function begin(body: JsonObject): {
    readonly answer: Promise<JsonObject>;
    readonly written: Promise<void>;
  } {
    if (failure !== undefined) {
      const answer = Promise.reject<JsonObject>(failure);
      return { answer, written: answer.then(() => {}) };
    }
    requests += 1;
    const id = `req_${requests}`;
    const line = JSON.stringify({ type: "control_request", request_id: id, request: body });
    const { promise, resolve, reject } = Promise.withResolvers<JsonObject>();
    const stopTimer = setTimer(timeoutMs, () => {
      settle(id)?.reject(controlTimedOut(body, timeoutMs));
    });
    waiting.set(id, {
      settle: (answer) => {
        stopTimer();
        if (answer["subtype"] === "success") resolve(isJsonObject(answer["response"]) ? answer["response"] : {});
        else reject(controlRefused(body, answer));
      },
      reject: (error) => {
        stopTimer();
        reject(error);
      },
    });
    return { answer: promise, written: write(line) };
  }

  function settle(id: unknown): PendingRequest | undefined {
    if (typeof id !== "string") return undefined;
    const found = waiting.get(id);
    waiting.delete(id);
    return found;
  }

  async function respond(id: string, body: JsonObject): Promise<void> {
    const controller = new AbortController();
    answering.set(id, controller);
    const given = await onRequest(body, controller.signal).catch((error: unknown): ControlAnswer => ({
      ok: false,
      error: thrownMessage(error),
    }));
    // Taken back by the CLI, or asked again under the same id: nobody reads this answer.
    if (answering.get(id) !== controller) return;
    answering.delete(id);
    await write(answerLine(id, given)).catch((error: unknown) => {
      if (failure === undefined) onWarning(new AgentError("cli_exited", thrownMessage(error), { cause: error }));
    });
  }

  function receiveControl(message: JsonObject): boolean {
    const { type, request_id: id, request: body, response } = message;
    if (type === "control_request") {
      if (typeof id === "string" && isJsonObject(body)) void respond(id, body);
      else onWarning(malformed("a control request without request_id or request", JSON.stringify(message)));
      return true;
    }
    if (type === "control_response") {
      if (isJsonObject(response)) settle(response["request_id"])?.settle(response);
      return true;
    }
    if (type === "control_cancel_request") {
      const controller = typeof id === "string" ? answering.get(id) : undefined;
      if (typeof id === "string") answering.delete(id);
      controller?.abort(new AgentError("aborted", "the CLI took the request back"));
      return true;
    }
    return false;
  }

  return {
    request,
    send,
    receive(line) {
      let message: unknown;
      try {
        message = JSON.parse(line);
      } catch (error) {
        onWarning(malformed(thrownMessage(error), line));
        return;
      }
      if (!isJsonObject(message)) onWarning(malformed("not an object", line));
      else if (!receiveControl(message)) onMessage(message);
    },
    fail(error) {
      failure ??= error;
      for (const { reject } of waiting.values()) reject(error);
      waiting.clear();
      for (const controller of answering.values()) controller.abort(error);
      answering.clear();
    },
  };
}

/** Spliced, not encoded again: the body is JSON already and may be large. */
function answerLine(id: string, answer: ControlAnswer): string {
  const requestId = JSON.stringify(id);
  const body = answer.ok
    ? `"subtype":"success","request_id":${requestId},"response":${answer.json}`
    : `"subtype":"error","request_id":${requestId},"error":${JSON.stringify(answer.error)}`;
  return `{"type":"control_response","response":{${body}}}`;
}

function malformed(problem: string, line: string): AgentError {
  return new AgentError("malformed_line", `skipped a line of the CLI that is no message: ${problem}`, {
    details: { line: line.slice(0, 200) },
  });
}

function controlTimedOut({ subtype }: JsonObject, timeoutMs: number): AgentError {
  return new AgentError(
    "control_timeout",
    `the CLI did not answer "${String(subtype)}" within ${timeoutMs} ms; raise controlTimeoutMs if it is only slow`,
    { details: { subtype, timeoutMs } },
  );
}

function controlRefused({ subtype }: JsonObject, answer: JsonObject): AgentError {
  const reason = typeof answer["error"] === "string" ? answer["error"] : "no reason given";
  return new AgentError("control_refused", `the CLI refused "${String(subtype)}": ${reason}`, {
    details: { subtype, reason },
  });
}
