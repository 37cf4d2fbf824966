import { createHash } from "node:crypto";

import type { ByteBudget, HeldBytes } from "../../core/byte-budget.ts";
import { type Clock, type Exchange, limitKeyOf, type Principal, type SetTimer } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { GatewayError } from "../../errors.ts";
import { KeyedCounter } from "../../lib/keyed-counter.ts";
import type { Seal } from "../../lib/keys/sealing.ts";
import { type Span, spanOf } from "../../protocol/json/outline.ts";
import { decodeString, elementsOf, membersOf, memberString, memberType, typeAt } from "../../protocol/json/read.ts";
import type { RequestMessage } from "../../protocol/message.ts";
import type { LinkEvents } from "../../transports/transport.ts";
import { BridgedCall, type BridgedCallLimits, type CallSuspender, CallTracking } from "./bridged-call.ts";

/** Bounds of all calls that wait for a retry. */
export interface SuspensionLimits extends BridgedCallLimits {
  /** Suspended calls in all. */
  readonly suspended: number;
  /** Suspended calls of one principal. */
  readonly suspendedPerPrincipal: number;
  /** How long a suspended call waits for its retry. */
  readonly suspendedMs: number;
}

export const defaultSuspensionLimits: SuspensionLimits = {
  suspended: 10_000,
  suspendedPerPrincipal: 1_000,
  suspendedMs: 10 * 60_000,
  gatherMs: 5,
  inputRequests: 32,
  bufferedNotifications: 16,
  bufferedBytes: 16 * 1024,
};

export interface SuspendedCallsDeps {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Makes unguessable ids. */
  readonly newId: () => string;
  /** Names this process; a retry has to reach the one that holds its call. */
  readonly instance: string;
  /** Seals every `requestState`. */
  readonly seal: Seal;
  readonly limits?: SuspensionLimits;
  /** Counts the requests that suspended calls keep. */
  readonly bytes?: ByteBudget;
}

/** The calls of modern clients that wait while a legacy server asks for input; one for all routes of a process. */
export interface SuspendedCalls {
  /** How many calls wait for a retry now. */
  readonly size: number;
  /** Makes a call from a client's first request; it can be suspended here. */
  createCall(deliver: LinkEvents["message"], request: RequestMessage): BridgedCall;
  /**
   * Asks the client for what a server's request wants, as part of the call the request belongs to; resolves with the
   * client's answer. Undefined when the exchange belongs to no call made here.
   */
  requestInput(exchange: Exchange): Promise<Reply> | undefined;
  /** The call that a response or request belongs to. */
  callOf(exchange: Exchange): BridgedCall | undefined;
  /** The process that holds the call of a retry, as its `requestState` says; undefined if that is not the caller's. */
  holderOf(state: string, route: string, principal: Pick<Principal, "id">): string | undefined;
  /** Resumes the call that a retry names, or throws why not; undefined for a request that is not a retry. */
  resume(exchange: Exchange, request: RequestMessage): Promise<Reply> | undefined;
}

interface Suspension {
  readonly id: string;
  readonly call: BridgedCall;
  /** Whose call it is, for the limit. */
  readonly caller: string;
  readonly held: HeldBytes | undefined;
  readonly expiresAt: number;
}

/** Makes an empty set of suspended calls. */
export function createSuspendedCalls(deps: SuspendedCallsDeps): SuspendedCalls {
  const { clock, setTimer, newId, instance, seal, limits = defaultSuspensionLimits, bytes } = deps;
  /** In the order in which they expire. */
  const byId = new Map<string, Suspension>();
  const byCall = new Map<BridgedCall, Suspension>();
  const callers = new KeyedCounter();
  let stopExpiry: (() => void) | undefined;

  const suspender: CallSuspender = { limits, setTimer, suspend, release };

  function suspend(call: BridgedCall, exchange: Exchange): string | GatewayError {
    const { message, original, route, principal } = exchange;
    const caller = limitKeyOf(principal);
    if (byId.size >= limits.suspended || !callers.add(caller, limits.suspendedPerPrincipal))
      return new GatewayError("overloaded", "too many calls wait for input; answer some of them first");
    const held = bytes?.hold(caller);
    const refusal = held?.resize(original.bytes.length);
    if (refusal !== undefined) {
      callers.remove(caller);
      return refusal;
    }
    // A new id for every round, so that each state is good for one retry.
    const expiresAt = clock.now() + limits.suspendedMs;
    const suspension: Suspension = { id: newId(), call, caller, held, expiresAt };
    byId.set(suspension.id, suspension);
    byCall.set(call, suspension);
    scheduleExpiry();
    return sealRequestState(seal, {
      instance,
      call: suspension.id,
      expiresAt: Math.ceil(suspension.expiresAt),
      owner: ownerDigest(route, principal.id),
      method: message.method ?? "",
      // As received: interceptors may edit the retry differently.
      params: original.kind === "request" ? paramsDigest(original) : "",
    });
  }

  function release(call: BridgedCall): void {
    const suspension = byCall.get(call);
    if (suspension === undefined) return;
    byCall.delete(call);
    byId.delete(suspension.id);
    suspension.held?.release();
    callers.remove(suspension.caller);
    if (byId.size > 0) return;
    stopExpiry?.();
    stopExpiry = undefined;
  }

  /** One timer for all calls, set for the oldest. */
  function scheduleExpiry(): void {
    const [oldest] = byId.values();
    if (stopExpiry !== undefined || oldest === undefined) return;
    stopExpiry = setTimer(Math.max(0, oldest.expiresAt - clock.now()), () => {
      stopExpiry = undefined;
      const now = clock.now();
      for (const { call, expiresAt } of byId.values()) {
        if (expiresAt > now) break;
        call.cancel("timeout");
      }
      scheduleExpiry();
    });
  }

  /** Finds the call that a retry may resume; everything in its state must be true of the retry. */
  function findSuspended(exchange: Exchange, text: string): BridgedCall {
    const { original, message, route, principal } = exchange;
    const state = openRequestState(seal, text);
    // Other principals do not learn that the call exists.
    if (state?.owner !== ownerDigest(route, principal.id)) throw invalidState("broken");
    if (state.instance !== instance) throw invalidState("foreign");
    if (state.method !== message.method) throw invalidState("changed");
    if (original.kind !== "request" || state.params !== paramsDigest(original)) throw invalidState("changed");
    if (clock.now() >= state.expiresAt) throw invalidState("expired");
    const suspension = byId.get(state.call);
    if (suspension === undefined) throw invalidState("used");
    return suspension.call;
  }

  function callOf({ parent }: Exchange): BridgedCall | undefined {
    return parent?.tracking instanceof CallTracking ? parent.tracking.call : undefined;
  }

  return {
    get size() {
      return byId.size;
    },
    createCall: (deliver, request) => new BridgedCall(suspender, deliver, request),
    callOf,
    requestInput: (exchange) => {
      const { message } = exchange;
      return message.kind === "request" ? callOf(exchange)?.requestInput(exchange, message) : undefined;
    },
    holderOf: (text, route, { id }) => {
      const state = openRequestState(seal, text);
      return state?.owner === ownerDigest(route, id) ? state.instance : undefined;
    },
    resume: (exchange, request) => {
      if (memberType(request, "params.requestState") === undefined) return undefined;
      const text = memberString(request, "params.requestState") ?? "";
      return findSuspended(exchange, text).resume(exchange, request);
    },
  };
}

const stateProblems = {
  broken: "requestState was not issued here or was altered; send the request again without it",
  foreign: "the gateway that issued requestState was restarted, or is another one; send the request again without it",
  changed: "method, name or arguments differ from the original request; send it again without requestState",
  expired: "the call waited too long for its input; send the request again without requestState",
  used: "requestState was already used, or the call has ended; send the request again without it",
} as const;

function invalidState(reason: keyof typeof stateProblems): GatewayError {
  return new GatewayError("invalid_params", stateProblems[reason], { details: { requestState: reason } });
}

/** What a `requestState` is bound to. */
interface RequestState {
  /** The process that holds the call. */
  readonly instance: string;
  /** The suspended call in one round; good for one retry. */
  readonly call: string;
  /** Monotonic milliseconds of that process. */
  readonly expiresAt: number;
  /** Digest of route and principal. */
  readonly owner: string;
  readonly method: string;
  /** Digest of the params. */
  readonly params: string;
}

type Members = readonly [
  instance: string,
  call: string,
  expiresAt: number,
  owner: string,
  method: string,
  params: string,
];

/** Seals a state. It passes through the client (MCP 2026-07-28, Multi Round-Trip Requests). */
function sealRequestState(seal: Seal, { instance, call, expiresAt, owner, method, params }: RequestState): string {
  const members: Members = [instance, call, expiresAt, owner, method, params];
  return seal.seal(Buffer.from(JSON.stringify(members)));
}

/** The state that a client sent; undefined if no gateway with our keys sealed it. */
function openRequestState(seal: Seal, text: string): RequestState | undefined {
  const content = seal.open(text);
  if (content === undefined) return undefined;
  // The seal proves that sealRequestState wrote these values.
  const [instance, call, expiresAt, owner, method, params] = JSON.parse(content.toString()) as Members;
  return { instance, call, expiresAt, owner, method, params };
}

/** Digest of a route and a principal. */
function ownerDigest(route: string, principal: string): string {
  return digest(JSON.stringify([route, principal]));
}

/** Members of params that may differ between a request and its retry. */
const perRound: ReadonlySet<string> = new Set(["inputResponses", "requestState", "_meta"]);

/**
 * Digest of what a request asks for, equal for a request and its retries: white space, member order and escapes do not
 * count. Numbers count digit by digit, so that values beyond double precision stay different.
 */
export function paramsDigest({ bytes, outline }: RequestMessage): string {
  const params = spanOf(outline, "params");
  return digest(params === undefined ? "{}" : canonicalObject(bytes, params, perRound));
}

function digest(text: string): string {
  return createHash("sha256").update(text).digest("base64url");
}

function canonicalObject(bytes: Buffer, object: Span, omitted?: ReadonlySet<string>): string {
  const members: string[] = [];
  for (const { name, value } of membersOf(bytes, object)) {
    if (omitted?.has(name) !== true) members.push(`${JSON.stringify(name)}:${canonicalValue(bytes, value)}`);
  }
  return `{${members.toSorted(byCodeUnit).join(",")}}`;
}

function canonicalValue(bytes: Buffer, value: Span): string {
  switch (typeAt(bytes, value.start)) {
    case "object":
      return canonicalObject(bytes, value);
    case "array":
      return `[${[...elementsOf(bytes, value)].map((element) => canonicalValue(bytes, element)).join(",")}]`;
    case "string":
      return JSON.stringify(decodeString(bytes, value.start, value.end));
    case "number":
    case "boolean":
    case "null":
      return bytes.toString("latin1", value.start, value.end);
  }
}

function byCodeUnit(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
