import type { SetTimer } from "../../lib/clock.ts";
import { isObject } from "../../lib/is-object.ts";
import type { ControlAnswer } from "./control-bridge.ts";
import { AgentError, type OnWarning } from "../errors.ts";
import { thrownMessage } from "../../lib/thrown-message.ts";
import type { UnknownRecord } from "../json-rpc.ts";

export interface ControlChannelDeps {
  /** Writes one line; lines leave in the order of the calls. */
  readonly write: (line: string) => Promise<void>;
  /** Answers a request of the CLI; the signal aborts when the CLI cancels the request. */
  readonly onRequest: (request: UnknownRecord, signal: AbortSignal) => Promise<ControlAnswer>;
  /** Called with every message that is not part of the control protocol. */
  readonly onMessage: (message: UnknownRecord) => void;
  readonly onWarning: OnWarning;
  /** How long a request to the CLI may take. */
  readonly timeoutMs: number;
  readonly setTimer: SetTimer;
}

/** The control protocol of the CLI: requests in both directions over lines of JSON, beside the agent's messages. */
export type ControlChannel = ReturnType<typeof createControlChannel>;

interface PendingRequest {
  readonly settle: (answer: UnknownRecord) => void;
  readonly reject: (error: AgentError) => void;
}

/** Makes a control channel. */
export function createControlChannel(options: ControlChannelDeps) {
  const { write, onRequest, onMessage, onWarning, timeoutMs, setTimer } = options;
  const waiting = new Map<string, PendingRequest>();
  const answering = new Map<string, AbortController>();
  let requests = 0;
  let failure: AgentError | undefined;

  async function request(body: UnknownRecord): Promise<UnknownRecord> {
    const { answer, written } = begin(body);
    // Awaited first, so that a failed write is reported as such.
    await Promise.race([written, answer]);
    return answer;
  }

  async function send(body: UnknownRecord): Promise<void> {
    const { answer, written } = begin(body);
    answer.catch((error: unknown) => {
      if (failure === undefined && error instanceof AgentError) onWarning(error);
    });
    await written;
  }

  function begin(body: UnknownRecord): { readonly answer: Promise<UnknownRecord>; readonly written: Promise<void> } {
    if (failure !== undefined) {
      const answer = Promise.reject<UnknownRecord>(failure);
      return { answer, written: answer.then(() => {}) };
    }
    requests += 1;
    const id = `req_${requests}`;
    const line = JSON.stringify({ type: "control_request", request_id: id, request: body });
    const { promise, resolve, reject } = Promise.withResolvers<UnknownRecord>();
    const stopTimer = setTimer(timeoutMs, () => settle(id)?.reject(controlTimedOut(body, timeoutMs)));
    waiting.set(id, {
      settle: (answer) => {
        stopTimer();
        if (answer["subtype"] === "success") resolve(isObject(answer["response"]) ? answer["response"] : {});
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

  async function respond(id: string, body: UnknownRecord): Promise<void> {
    const controller = new AbortController();
    answering.set(id, controller);
    const given = await onRequest(body, controller.signal).catch((error: unknown): ControlAnswer => ({
      ok: false,
      error: thrownMessage(error),
    }));
    // Cancelled, or repeated under the same id: the CLI does not expect this answer.
    if (answering.get(id) !== controller) return;
    answering.delete(id);
    await write(answerLine(id, given)).catch((error: unknown) => {
      if (failure === undefined) onWarning(new AgentError("cli_exited", thrownMessage(error), { cause: error }));
    });
  }

  function receiveControl(message: UnknownRecord): boolean {
    const { type, request_id: id, request: body, response } = message;
    if (type === "control_request") {
      if (typeof id === "string" && isObject(body)) void respond(id, body);
      else onWarning(malformed("the control request lacks request_id or request", JSON.stringify(message)));
      return true;
    }
    if (type === "control_response") {
      if (isObject(response)) settle(response["request_id"])?.settle(response);
      return true;
    }
    if (type === "control_cancel_request") {
      const controller = typeof id === "string" ? answering.get(id) : undefined;
      if (typeof id === "string") answering.delete(id);
      controller?.abort(new AgentError("aborted", "the CLI cancelled the request"));
      return true;
    }
    return false;
  }

  return {
    /** Sends a request; resolves with the body of the answer. */
    request,
    /** Sends a request and resolves when it is written; an error answer becomes a warning. */
    send,
    /** Handles one line of the CLI. */
    receive(line: string): void {
      let message: unknown;
      try {
        message = JSON.parse(line);
      } catch (error) {
        onWarning(malformed(thrownMessage(error), line));
        return;
      }
      if (!isObject(message)) onWarning(malformed("not an object", line));
      else if (!receiveControl(message)) onMessage(message);
    },
    /** Ends the channel: rejects all pending and later requests with this error. */
    fail(error: AgentError): void {
      failure ??= error;
      for (const { reject } of waiting.values()) reject(error);
      waiting.clear();
      for (const controller of answering.values()) controller.abort(error);
      answering.clear();
    },
  };
}

/** The body is JSON text already and may be large, so it is not encoded again. */
function answerLine(id: string, answer: ControlAnswer): string {
  const requestId = JSON.stringify(id);
  const body = answer.ok
    ? `"subtype":"success","request_id":${requestId},"response":${answer.json}`
    : `"subtype":"error","request_id":${requestId},"error":${JSON.stringify(answer.error)}`;
  return `{"type":"control_response","response":{${body}}}`;
}

function malformed(problem: string, line: string): AgentError {
  return new AgentError("malformed_line", `skipped a line of the CLI that is not a message: ${problem}`, {
    details: { line: line.slice(0, 200) },
  });
}

function controlTimedOut({ subtype }: UnknownRecord, timeoutMs: number): AgentError {
  return new AgentError(
    "control_timeout",
    `the CLI did not answer "${String(subtype)}" within ${timeoutMs} ms; raise controlTimeoutMs if it is just slow`,
    { details: { subtype, timeoutMs } },
  );
}

function controlRefused({ subtype }: UnknownRecord, answer: UnknownRecord): AgentError {
  const reason = typeof answer["error"] === "string" ? answer["error"] : "no reason given";
  return new AgentError("control_refused", `the CLI refused "${String(subtype)}": ${reason}`, {
    details: { subtype, reason },
  });
}
