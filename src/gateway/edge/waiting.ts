import type { IncomingMessage } from "node:http";

import { limitKeyOf } from "../../core/exchange.ts";
import type { GatewayError } from "../../errors.ts";
import {
  type Concurrency,
  type ConcurrencyLimits,
  createConcurrency,
  type MessageCounters,
} from "../route/guards/limits.ts";
import { type ClientAddress, createAnonymousCallers, createClientAddress } from "./access.ts";

/** Bounds the requests that wait because their credentials are being verified. */
export interface AuthenticationWaits {
  /** Counts a request until the returned function is called; an error where too many wait. */
  begin(request: IncomingMessage): GatewayError | (() => void);
}

/**
 * Creates the bound. Who is calling is not known yet, so that requests are counted by address, as those of callers without
 * credentials are.
 */
export function createAuthenticationWaits(
  limits: ConcurrencyLimits,
  trustedProxies: () => readonly string[],
): AuthenticationWaits {
  const waiting = createConcurrency(limits, "unverified requests");
  const callerAt = createAnonymousCallers();
  let proxies: readonly string[] = [];
  let addressOf: ClientAddress = createClientAddress(proxies);
  return {
    begin: (request) => {
      if (proxies !== trustedProxies()) {
        proxies = trustedProxies();
        addressOf = createClientAddress(proxies);
      }
      const caller = limitKeyOf(callerAt(addressOf(request)));
      const overload = waiting.enter(caller);
      if (overload !== undefined) return overload;
      return () => {
        waiting.leave(caller);
      };
    },
  };
}

/**
 * Counts a message while something is awaited that comes before the guards of its route, such as a peer, a store or a list
 * of the upstream. It takes one of the places of running messages. Rejects at once if its caller, or all callers, have too many.
 */
export async function whileCounted<Found>(
  { requests, notifications }: MessageCounters,
  caller: string,
  isRequest: () => boolean,
  find: () => Promise<Found>,
): Promise<Found> {
  let counter: Concurrency = requests;
  let overload = counter.enter(caller);
  // A caller whose requests take all places can still cancel them. Only then does it matter what a body holds.
  if (overload !== undefined && !isRequest()) {
    counter = notifications;
    overload = counter.enter(caller);
  }
  if (overload !== undefined) throw overload;
  try {
    return await find();
  } finally {
    counter.leave(caller);
  }
}
