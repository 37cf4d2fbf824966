import { randomBytes } from "node:crypto";

import { expect } from "vitest";

import type { ConfigInput } from "../../src/config/schema.ts";
import { eventually } from "./eventually.ts";
import { type LocalGateway, openGateway } from "./local-gateway.ts";
import { type RoundRobin, startRoundRobin } from "./round-robin.ts";

/** Where replicas find each other. */
export type SharedState = Pick<NonNullable<ConfigInput["state"]>, "redis" | "postgres">;

/** Two gateways that know each other, with a proxy in front. */
export interface ReplicaPair extends AsyncDisposable {
  readonly one: LocalGateway;
  readonly two: LocalGateway;
  readonly proxy: RoundRobin;
  readonly config: ConfigInput;
}

export const newSecret = (): string => randomBytes(32).toString("base64url");

/** What replicas have in common. */
export function replicaConfig(state: SharedState, rest: ConfigInput): ConfigInput {
  return {
    ...rest,
    state: { keys: [newSecret()], ...state },
    cluster: { listen: { host: "127.0.0.1", port: 0 }, secret: newSecret() },
  };
}

/** Opens two gateways in this process, and waits until they know each other. */
export async function openPair(state: SharedState, rest: ConfigInput): Promise<ReplicaPair> {
  const config = replicaConfig(state, rest);
  await using stack = new AsyncDisposableStack();
  const one = stack.use(await openGateway(config));
  const two = stack.use(await openGateway(config));
  const proxy = stack.use(await startRoundRobin([one.origin, two.origin]));
  // Each reads once a second who is there.
  await eventually(() => {
    for (const { gateway } of [one, two]) expect(gateway.metrics()).toMatch(/^headgate_peers 1$/mu);
  });
  const opened = stack.move();
  return { one, two, proxy, config, [Symbol.asyncDispose]: () => opened.disposeAsync() };
}
