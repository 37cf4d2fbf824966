import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { type FixtureChoice, startFixture, stdioFixture } from "../support/fixture.ts";
import { startGateway } from "../support/gateway.ts";
import { startRedis } from "../support/redis.ts";
import { replicaConfig } from "../support/replica-config.ts";
import { startRoundRobin } from "../support/round-robin.ts";
import type { Lane, Way } from "./lanes.ts";

/** A running endpoint for the suite; leaving the scope that holds it ends everything behind it. */
export interface Target extends AsyncDisposable {
  readonly url: string;
}

/** Starts the lane's server, and the gateway in front of it where the way has one. */
export async function startTarget(way: Way, lane: Lane): Promise<Target> {
  const fixture = way === "direct" ? lane.fixture : (lane.behindGateway ?? lane.fixture);
  switch (way) {
    case "direct":
      return startFixture(fixture);
    case "federation":
      return startFederation(fixture);
    case "replicas":
      return startReplicas(fixture, isModern(lane));
    case "stdio":
      return startOverStdio(stdioFixture(fixture), isModern(lane));
    case "http": {
      await using started = new AsyncDisposableStack();
      const server = started.use(await startFixture(fixture));
      const { url } = started.use(await startGateway(["run", "--upstream", server.url, "--port", "0"]));
      const kept = started.move();
      return { url, [Symbol.asyncDispose]: async () => kept.disposeAsync() };
    }
  }
}

/**
 * Legacy sessions get a process each, as is the default. Modern requests share one: a scenario that gives its answer
 * 600 ms would otherwise measure how long a process takes to start, for every new set of client capabilities.
 */
async function startOverStdio([command, ...args]: readonly string[], isShared: boolean): Promise<Target> {
  if (!isShared) return startGateway(["run", "--port", "0", "--", command ?? "", ...args]);
  const folder = mkdtempSync(join(tmpdir(), "headgate-conformance-"));
  const file = join(folder, "headgate.json");
  writeFileSync(file, JSON.stringify({ admin: false, upstream: { command, args, sharing: "shared" } }));
  const gateway = await startGateway(["run", "--port", "0", "--config", file]);
  return {
    url: gateway.url,
    [Symbol.asyncDispose]: async () => {
      await gateway[Symbol.asyncDispose]();
      rmSync(folder, { recursive: true });
    },
  };
}

/** The first half over HTTP and the second one over standard streams, under the names that the suite knows. */
async function startFederation(fixture: FixtureChoice): Promise<Target> {
  await using started = new AsyncDisposableStack();
  const { url } = started.use(await startFixture({ ...fixture, half: "first" }));
  const [command, ...args] = stdioFixture({ ...fixture, half: "second" });
  const folder = mkdtempSync(join(tmpdir(), "headgate-conformance-"));
  started.defer(() => {
    rmSync(folder, { recursive: true });
  });
  const file = join(folder, "headgate.json");
  const upstreams = { first: { url, prefix: "" }, second: { command, args, sharing: "shared", prefix: "" } };
  writeFileSync(file, JSON.stringify({ admin: false, routes: { halves: { upstreams } } }));
  const gateway = started.use(await startGateway(["run", "--port", "0", "--config", file]));
  const kept = started.move();
  return { url: gateway.url, [Symbol.asyncDispose]: async () => kept.disposeAsync() };
}

/** Two gateways behind a proxy that sends each request to the other one, without sticky sessions. */
async function startReplicas(fixture: FixtureChoice, isOverHttp: boolean): Promise<Target> {
  await using started = new AsyncDisposableStack();
  const redis = started.use(await startRedis());
  const folder = mkdtempSync(join(tmpdir(), "headgate-conformance-"));
  started.defer(() => {
    rmSync(folder, { recursive: true });
  });
  const [command, ...args] = stdioFixture(fixture);
  const upstream = isOverHttp ? { url: started.use(await startFixture(fixture)).url } : { command, args };
  const file = join(folder, "headgate.json");
  writeFileSync(file, JSON.stringify({ admin: false, ...replicaConfig(redis.state, { upstream }) }));
  const start = async () => started.use(await startGateway(["run", "--port", "0", "--config", file]));
  const proxy = started.use(await startRoundRobin([(await start()).origin, (await start()).origin]));
  const kept = started.move();
  return { url: proxy.url, [Symbol.asyncDispose]: async () => kept.disposeAsync() };
}

function isModern({ selection }: Lane): boolean {
  return selection.includes("2026-07-28");
}
