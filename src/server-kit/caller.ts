import type { AuthInfo } from "@modelcontextprotocol/server";

import type { Caller } from "./contract.ts";

const key = "headgate/caller";

/** Hands a caller to the SDK, which gives it back to handlers untouched; no token is in it. */
export function toAuthInfo(caller: Caller): AuthInfo {
  const { principal, resourceMetadataUrl } = caller;
  return {
    token: "",
    clientId: principal.id,
    scopes: [...principal.scopes],
    ...(principal.expiresAt === undefined ? {} : { expiresAt: Math.floor(principal.expiresAt / 1000) }),
    ...(resourceMetadataUrl === undefined ? {} : { resourceMetadataUrl }),
    extra: { [key]: caller },
  };
}

/** The caller that `toAuthInfo` put in; undefined over stdio. */
export function fromAuthInfo(authInfo: AuthInfo | undefined): Caller | undefined {
  const caller = authInfo?.extra?.[key];
  // Only toAuthInfo writes this key, and nothing of a request's body gets there.
  return caller === undefined ? undefined : (caller as Caller);
}
