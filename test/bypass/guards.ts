import type { ConfigInput } from "../../src/config/schema.ts";
import { allowing, denying } from "./policies.ts";
import { remoteProviders } from "./providers.ts";

/** A policy in force, with whatever decides behind it. */
export interface Guard extends AsyncDisposable {
  readonly policy: NonNullable<ConfigInput["policy"]>;
  /** Whether everything but the open things is refused, so that nothing else may even reach the server. */
  readonly isAllowList: boolean;
}

/** The same policy by every provider there is. */
export const guards: Readonly<Record<string, () => Promise<Guard>>> = {
  "CEL rules that allow": async () => configured(allowing["rules that allow"], true),
  "CEL rules that deny": async () => configured(denying["rules that deny"], false),
  "name lists that allow": async () => configured(allowing["lists of names that there are"], true),
  "name lists that deny": async () => configured(denying["lists of denied names"], false),
  AuthZEN: async () => ({ ...(await remoteProviders.AuthZEN()), isAllowList: true }),
  PingAuthorize: async () => ({ ...(await remoteProviders.PingAuthorize()), isAllowList: true }),
};

function configured(policy: Guard["policy"], isAllowList: boolean): Guard {
  return { policy, isAllowList, [Symbol.asyncDispose]: async () => {} };
}
