import type { Cancellation } from "../../core/cancellation.ts";
import type { Exchange, SetTimer } from "../../core/exchange.ts";
import { GatewayError } from "../../errors.ts";
import { changeMembers } from "../../protocol/json/edit.ts";
import { spanOf } from "../../protocol/json/outline.ts";
import {
  decodeString,
  memberInteger,
  membersOf,
  memberSource,
  memberString,
  memberValue,
  typeAt,
} from "../../protocol/json/read.ts";
import { idFrom, type Message, type RequestId, type ResultMessage } from "../../protocol/message.ts";
import { type Capabilities, missingCapabilities, requiredClientCapabilities } from "../../protocol/methods.ts";
import { revisions } from "../../protocol/revisions.ts";
import { cancelledError, type LinkEvents } from "../../transports/transport.ts";
import { createNotification, synthesizeRequest } from "../../core/synthesize.ts";
import type { ClientFacts } from "./handshake.ts";

/** One entry of `inputRequests`. */
export interface InputRequest {
  readonly key: string;
  readonly method: string;
  /** The JSON text of its params. */
  readonly params: string | undefined;
}

/** The JSON text of `inputResponses`, or why there is none. */
export type InputOutcome =
  | { readonly ok: true; readonly responses: string }
  | { readonly ok: false; readonly error: GatewayError };

/** Sends the input requests of modern servers to a legacy client. */
export type InputRequester = ReturnType<typeof createInputRequester>;

export interface InputRequesterDeps {
  readonly events: Pick<LinkEvents, "message" | "error">;
  readonly setTimer: SetTimer;
  readonly newId: () => string;
  readonly client: () => ClientFacts;
  /** How long a client may take for one round of input requests. */
  readonly answerMs: number;
}

/** Reads `inputRequests`; undefined when an entry is invalid. */
export function parseInputRequests({ bytes, outline }: ResultMessage): readonly InputRequest[] | undefined {
  const span = spanOf(outline, "result.inputRequests");
  if (span === undefined) return [];
  if (typeAt(bytes, span.start) !== "object") return undefined;
  const requests: InputRequest[] = [];
  for (const { name: key, value } of membersOf(bytes, span)) {
    if (typeAt(bytes, value.start) !== "object") return undefined;
    let method: string | undefined;
    let params: string | undefined;
    for (const member of membersOf(bytes, value)) {
      const { start, end } = member.value;
      const type = typeAt(bytes, start);
      if (member.name === "method" && type === "string") method = decodeString(bytes, start, end);
      if (member.name === "params" && type === "object") params = bytes.toString("utf8", start, end);
    }
    if (method === undefined || requiredClientCapabilities(method, undefined) === undefined) return undefined;
    requests.push({ key, method, params });
  }
  return requests;
}

/** Makes the requester of one session. */
export function createInputRequester(deps: InputRequesterDeps) {
  const { events, setTimer, newId, client } = deps;
  /** By request id. */
  const pending = new Map<string, (response: Message) => void>();
  let count = 0;

  function request(
    exchange: Exchange,
    cancellation: Cancellation,
    requests: readonly InputRequest[],
  ): Promise<InputOutcome> {
    if (cancellation.reason !== undefined) return Promise.reject(cancelledError(cancellation.reason));
    return new Promise((resolve, reject) => {
      const answers = new Map<string, string>();
      const open = new Set<RequestId>();
      let isOver = false;
      const end = (): void => {
        isOver = true;
        off();
        stop();
        for (const id of open) withdraw(id, exchange, cancellation);
        open.clear();
      };
      const fail = (error: GatewayError): void => {
        if (isOver) return;
        end();
        resolve({ ok: false, error });
      };
      const settle = (key: string, json: string): void => {
        answers.set(key, json);
        if (answers.size < requests.length || isOver) return;
        end();
        resolve({ ok: true, responses: formatInputResponses(requests, answers) });
      };
      const stop = setTimer(deps.answerMs, () => fail(timeoutError(requests, answers)));
      const off = cancellation.onCancel((reason) => {
        end();
        reject(cancelledError(reason));
      });
      for (const inputRequest of requests) {
        if (isOver) return;
        const refusal = refuse(inputRequest);
        if (refusal instanceof GatewayError) {
          fail(refusal);
          return;
        }
        if (refusal !== undefined) {
          settle(inputRequest.key, refusal);
          continue;
        }
        const id = idFrom(`ask-${++count}`);
        open.add(id);
        pending.set(id.key, (response) => {
          open.delete(id);
          const answer = toInputResponse(inputRequest, response);
          if (answer instanceof GatewayError) fail(answer);
          else settle(inputRequest.key, answer);
        });
        deliver(synthesizeRequest(formatRequest(inputRequest, id)), exchange, fail);
      }
    });
  }

  function deliver(message: Message, exchange: Exchange, onError: (error: GatewayError) => void): void {
    const delivered = async (): Promise<void> => events.message(message, exchange, { type: "in-process" });
    delivered().catch((error: unknown) => onError(GatewayError.from(error)));
  }

  /** Cancels a request to the client whose answer is no longer needed (MCP 2025-11-25, Cancellation). */
  function withdraw(id: RequestId, exchange: Exchange, { reason }: Cancellation): void {
    pending.delete(id.key);
    if (reason === "session-ended" || reason === "shutdown") return;
    const params = `{"requestId":${id.json},"reason":"the request that led to this question has ended"}`;
    deliver(createNotification("notifications/cancelled", params), exchange, (error) => events.error(error));
  }

  /** For a client that lacks the capability: elicitations are declined, other requests fail the call. */
  function refuse({ method, params }: InputRequest): string | GatewayError | undefined {
    const needed = requiredClientCapabilities(method, params === undefined ? undefined : JSON.parse(params)) ?? {};
    const missing = missingCapabilities(needed, client().capabilities);
    if (missing === undefined) return undefined;
    return method === "elicitation/create" ? decline : missingCapabilityError(method, missing);
  }

  function formatRequest({ method, params }: InputRequest, id: RequestId): string {
    const known = method === "elicitation/create" && params !== undefined ? elicitationParams(params) : params;
    const member = known === undefined ? "" : `,"params":${known}`;
    return `{"jsonrpc":"2.0","id":${id.json},"method":${JSON.stringify(method)}${member}}`;
  }

  /** URL elicitations need an `elicitationId` in 2025-11-25; earlier revisions know only forms and no `mode`. */
  function elicitationParams(params: string): string {
    const bytes = Buffer.from(params);
    const span = { start: bytes.indexOf("{"), end: bytes.length };
    const { elicitation } = revisions[client().revision];
    if (elicitation === "form") return changeMembers(bytes, span, new Map([["mode", undefined]])).toString();
    const { mode, elicitationId } = JSON.parse(params) as Readonly<Record<string, unknown>>;
    if (mode !== "url" || elicitationId !== undefined) return params;
    return changeMembers(bytes, span, new Map([["elicitationId", JSON.stringify(newId())]])).toString();
  }

  return {
    /** Sends all at once; resolves when all are answered or one fails. Rejects when the call is cancelled. */
    request,
    /** Takes a response of the client; false when no request waits for it. */
    receiveResponse: (message: Message): boolean => {
      const key = message.id?.key ?? "";
      const receive = pending.get(key);
      pending.delete(key);
      receive?.(message);
      return receive !== undefined;
    },
    /** Requests that wait for a response. */
    get size(): number {
      return pending.size;
    },
  };
}

const decline = '{"action":"decline"}';
const cancel = '{"action":"cancel"}';

/** The client's response as an entry of `inputResponses`, which cannot hold errors: those fail the call. */
function toInputResponse({ method }: InputRequest, response: Message): string | GatewayError {
  if (response.kind === "result") return memberSource(response, "result") ?? "{}";
  const data: unknown = memberValue(response, "error.data");
  const isRefusal = Reflect.get(Object(data), "origin") === "gateway";
  if (method === "elicitation/create") return isRefusal ? decline : cancel;
  const code = memberInteger(response, "error.code");
  const text = memberString(response, "error.message") ?? "no reason given";
  return new GatewayError("missing_capability", `the client answered ${method} with error ${code}: ${text}`, {
    details: { question: method },
  });
}

function missingCapabilityError(method: string, missing: Capabilities): GatewayError {
  const text = `the server asked for ${method}, which the client did not declare`;
  return new GatewayError("missing_capability", text, { details: { question: method, requiredCapabilities: missing } });
}

function timeoutError(requests: readonly InputRequest[], answers: ReadonlyMap<string, string>): GatewayError {
  const open = requests.filter(({ key }) => !answers.has(key)).map(({ method }) => method);
  return new GatewayError("missing_capability", `the client did not answer in time: ${open.join(", ")}`, {
    details: { question: open[0] },
  });
}

function formatInputResponses(requests: readonly InputRequest[], answers: ReadonlyMap<string, string>): string {
  const members = requests.map(({ key }) => `${JSON.stringify(key)}:${answers.get(key) ?? "null"}`);
  return `{${members.join(",")}}`;
}
