import { GatewayError } from "../../errors.ts";
import type { Clock, Exchange, SetTimer } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { memberString, memberType } from "../../protocol/json/read.ts";
import type { RequestMessage } from "../../protocol/message.ts";
import type { LinkEvents } from "../../transports/transport.ts";
import { BridgedCall, type BridgedCallLimits, type CallSuspender, CallTracking } from "./bridged-call.ts";
import { createRequestStateSigner, ownerDigest, paramsDigest } from "./request-state.ts";

/** Bounds of all calls that wait for their clients. */
export interface SuspensionLimits extends BridgedCallLimits {
  /** Parked calls in all. */
  readonly suspended: number;
  /** Parked calls of one principal on one route. */
  readonly suspendedPerPrincipal: number;
  /** How long a parked call waits for its retry. */
  readonly suspendedMs: number;
}

/** What holds unless told otherwise. */
export const defaultSuspensionLimits: SuspensionLimits = {
  suspended: 10_000,
  suspendedPerPrincipal: 1_000,
  suspendedMs: 10 * 60_000,
  gatherMs: 5,
  inputRequests: 32,
  bufferedNotifications: 16,
  bufferedBytes: 16 * 1024,
};

/** What a lot is made of. */
export interface SuspendedCallsDeps {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Unguessable ids. */
  readonly newId: () => string;
  /** Names this process; another one cannot take up what was parked here. */
  readonly instance: string;
  /** 32 bytes for the seals of this process. */
  readonly secret: Uint8Array;
  readonly limits?: SuspensionLimits;
}

/** Where calls of modern clients wait while a legacy server asks; one for all routes of a process. */
export interface SuspendedCalls {
  /** Calls that wait for a retry now. */
  readonly size: number;
  /** Makes a call of a client's first request, whose questions will find it here. */
  createCall(deliver: LinkEvents["message"], exchange: Exchange, request: RequestMessage): BridgedCall;
  /**
   * Puts a question of a server to the client whose call it belongs to, and resolves with the client's answer;
   * undefined when the exchange belongs to no call of this lot.
   */
  requestInput(question: Exchange): Promise<Reply> | undefined;
  /** The call that an answer or question belongs to. */
  callOf(exchange: Exchange): BridgedCall | undefined;
  /** Goes on with the call that a retry names, or throws why not; undefined for a request that is no retry. */
  resume(exchange: Exchange, request: RequestMessage): Promise<Reply> | undefined;
}

/** Who has parked calls; one for all calls of a principal on a route. */
interface Owner {
  readonly digest: string;
  count: number;
}

/** A class, so that a call can be asked what it is parked as. */
class Suspension {
  readonly id: string;
  readonly call: BridgedCall;
  readonly owner: Owner;
  readonly expiresAt: number;

  constructor(id: string, call: BridgedCall, owner: Owner, expiresAt: number) {
    this.id = id;
    this.call = call;
    this.owner = owner;
    this.expiresAt = expiresAt;
  }
}

/** Makes an empty lot. */
export function createSuspendedCalls(options: SuspendedCallsDeps): SuspendedCalls {
  const { clock, setTimer, newId, limits = defaultSuspensionLimits } = options;
  const seal = createRequestStateSigner(options.instance, options.secret);
  /** In the order in which they came, which is that in which they expire. */
  const byId = new Map<string, Suspension>();
  const owners = new Map<string, Owner>();
  let stopWatching: (() => void) | undefined;

  const keeper: CallSuspender = { limits, setTimer, suspend: park, release: unpark };

  function park(call: BridgedCall, exchange: Exchange): string | GatewayError {
    const { message, original, route, principal } = exchange;
    const digest = ownerDigest(route, principal.id);
    const owner = owners.get(digest) ?? { digest, count: 0 };
    if (byId.size >= limits.suspended || owner.count >= limits.suspendedPerPrincipal)
      return new GatewayError("overloaded", "too many calls wait for input; answer some of them first");
    // Another id for every round, so that each state is good for one retry.
    const parked = new Suspension(newId(), call, owner, clock.now() + limits.suspendedMs);
    call.suspension = parked;
    byId.set(parked.id, parked);
    owner.count++;
    owners.set(digest, owner);
    watch();
    return seal.sign({
      call: parked.id,
      expiresAt: Math.ceil(parked.expiresAt),
      owner: digest,
      method: message.method ?? "",
      // As the client wrote it: what interceptors make of it may differ from one time to the next.
      params: original.kind === "request" ? paramsDigest(original) : "",
    });
  }

  function unpark(call: BridgedCall): void {
    const parked = call.suspension;
    if (!(parked instanceof Suspension)) return;
    call.suspension = undefined;
    byId.delete(parked.id);
    const { owner } = parked;
    owner.count--;
    if (owner.count === 0) owners.delete(owner.digest);
    if (byId.size > 0) return;
    stopWatching?.();
    stopWatching = undefined;
  }

  /** One timer for all: it looks after the call that has waited longest. */
  function watch(): void {
    const [oldest] = byId.values();
    if (stopWatching !== undefined || oldest === undefined) return;
    stopWatching = setTimer(Math.max(0, oldest.expiresAt - clock.now()), () => {
      stopWatching = undefined;
      const now = clock.now();
      for (const { call, expiresAt } of byId.values()) {
        if (expiresAt > now) break;
        call.cancel("timeout");
      }
      watch();
    });
  }

  /** The parked call that a retry may go on with; everything that the seal says must be true of the retry. */
  function parkedFor(exchange: Exchange, text: string): BridgedCall {
    const opened = seal.verify(text);
    if (!opened.ok) throw invalidState(opened.reason);
    const { state } = opened;
    const { original, message, route, principal } = exchange;
    const owner = ownerDigest(route, principal.id);
    // Whose call it is, strangers are not told.
    if (state.owner !== owner) throw invalidState("broken");
    if (state.method !== message.method) throw invalidState("changed");
    if (original.kind !== "request" || state.params !== paramsDigest(original)) throw invalidState("changed");
    if (clock.now() >= state.expiresAt) throw invalidState("expired");
    const parked = byId.get(state.call);
    if (parked === undefined) throw invalidState("used");
    return parked.call;
  }

  function callOf({ parent }: Exchange): BridgedCall | undefined {
    return parent?.tracking instanceof CallTracking ? parent.tracking.call : undefined;
  }

  return {
    get size() {
      return byId.size;
    },
    createCall: (deliver, exchange, request) => new BridgedCall(keeper, deliver, exchange, request),
    callOf,
    requestInput: (question) => {
      const { message } = question;
      return message.kind === "request" ? callOf(question)?.requestInput(question, message) : undefined;
    },
    resume: (exchange, request) => {
      if (memberType(request, "params.requestState") === undefined) return undefined;
      const text = memberString(request, "params.requestState") ?? "";
      return parkedFor(exchange, text).resume(exchange, request);
    },
  };
}

const stateProblems = {
  broken: "requestState was not made here, or has been altered; send the request again without it",
  foreign: "the gateway that kept this call has been restarted; send the request again without requestState",
  changed:
    "method, name or arguments differ from the request that was asked for input; send it again without requestState",
  expired: "the call has waited too long for its input; send the request again without requestState",
  used: "requestState has been used before, or the call has ended; send the request again without it",
} as const;

function invalidState(reason: keyof typeof stateProblems): GatewayError {
  return new GatewayError("invalid_params", stateProblems[reason], { details: { requestState: reason } });
}
