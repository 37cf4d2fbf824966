import type { AuthInfo } from "@modelcontextprotocol/server";

import type { KitCaller } from "./contract.ts";

const callerKey = "headgate/caller";

/** Hands a caller to the SDK, which gives it back to handlers untouched; no token is in it. */
export function toAuthInfo(caller: KitCaller): AuthInfo {
  const { principal, resourceMetadataUrl } = caller;
  return {
    token: "",
    clientId: principal.id,
    scopes: [...principal.scopes],
    ...(principal.expiresAt === undefined ? {} : { expiresAt: Math.floor(principal.expiresAt / 1000) }),
    ...(resourceMetadataUrl === undefined ? {} : { resourceMetadataUrl }),
    extra: { [callerKey]: caller },
  };
}

/** The caller that `toAuthInfo` put in; undefined over stdio. */
export function fromAuthInfo(authInfo: AuthInfo | undefined): KitCaller | undefined {
  const caller = authInfo?.extra?.[callerKey];
  // Only toAuthInfo writes this key, and nothing of a request's body gets there.
  return caller === undefined ? undefined : (caller as KitCaller);
}
