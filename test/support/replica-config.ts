import { randomBytes } from "node:crypto";

import type { ConfigInput } from "../../src/config/schema.ts";

/** Where replicas find each other. */
export type SharedState = Pick<NonNullable<ConfigInput["state"]>, "redis" | "postgres" | "timeout">;

export const newSecret = (): string => randomBytes(32).toString("base64url");

/** What replicas have in common. A store that takes long to answer has not failed: the machine may be busy. */
export function replicaConfig(state: SharedState, rest: ConfigInput): ConfigInput {
  return {
    state: { keys: [newSecret()], timeout: "5s", ...state },
    cluster: { listen: { host: "127.0.0.1", port: 0 }, secret: newSecret() },
    ...rest,
  };
}
