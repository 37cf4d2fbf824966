import { expect } from "vitest";

import type { ConfigInput } from "../../src/config/schema.ts";
import { eventually } from "./eventually.ts";
import { type LocalGateway, openGateway } from "./local-gateway.ts";
import { replicaConfig, type SharedState } from "./replica-config.ts";
import { type RoundRobin, startRoundRobin } from "./round-robin.ts";

/** Two gateways that know each other, with a proxy in front. */
export interface ReplicaPair extends AsyncDisposable {
  readonly one: LocalGateway;
  readonly two: LocalGateway;
  readonly proxy: RoundRobin;
  readonly config: ConfigInput;
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
