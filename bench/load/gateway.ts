import { ownProcess } from "./rig.ts";
import type { Rig, Server } from "./rig.ts";
import { tenRules } from "../ten-rules.ts";

/** Where the gateway sends what it gets. */
export type Upstream =
  | { readonly url: string; readonly era?: "legacy" | "modern" }
  | { readonly command: string; readonly args: readonly string[] };

/** All of the benchmark's clients are one principal, which has as many sessions here as all together elsewhere. */
const limits = { sessions: 5000, sessionsPerPrincipal: 5000 };
let started = 0;

/** Starts the gateway before an upstream: no policy unless given, metrics and correlation as always. */
export async function startGateway(
  rig: Rig,
  upstream: Upstream,
  level: "warn" | "info",
  more: Readonly<Record<string, unknown>> = {},
): Promise<Server> {
  return rig.startServer(commandOf(rig, upstream, level, more));
}

/** Starts two gateways that share nothing in one process group. The URL of this server is that of both, with a comma between. */
export async function startSideBySide(rig: Rig, upstream: Upstream): Promise<Server> {
  const commands = [1, 2].map(() => commandOf(rig, upstream, "warn", {}));
  const server = await rig.startServer([...ownProcess("side-by-side"), JSON.stringify(commands)]);
  if (server.url.split(",").length !== commands.length) throw new Error(`not the URLs of both gateways: ${server.url}`);
  return server;
}

function commandOf(
  rig: Rig,
  upstream: Upstream,
  level: "warn" | "info",
  more: Readonly<Record<string, unknown>>,
): readonly string[] {
  started += 1;
  const config = {
    listen: { port: 0 },
    admin: false,
    log: { level, format: "json" },
    limits,
    upstream,
    // Measured by a bench of its own; everything else is about the way through.
    record: false,
    ...more,
  };
  const file = rig.file(`gateway-${started}.json`, JSON.stringify(config));
  return [...rig.gateway, "run", "--config", file];
}

/** Starts the gateway with everything on that users get from `npm start`, and ten rules. */
export async function startFullGateway(rig: Rig, upstream: Upstream): Promise<Server> {
  const record = { file: rig.file(`traffic-${started + 1}.sqlite`, "") };
  return startGateway(rig, upstream, "info", { record, policy: tenRules });
}

/** Starts the pass-through before an upstream. */
export async function startBaseline(rig: Rig, url: string): Promise<Server> {
  return rig.startServer([...rig.baseline, url]);
}

/** Starts the second pass-through before an upstream. */
export async function startSecondBaseline(rig: Rig, url: string): Promise<Server> {
  return rig.startServer([...rig.secondBaseline, url]);
}

/** Starts the bare MCP server that stands behind everything measured. */
export async function startUpstream(rig: Rig): Promise<Server> {
  return rig.startServer(ownProcess("upstream"));
}

/** Starts a process that opens answers at an upstream with nothing around them, as many as it is told by POST. */
export async function startBareStreams(rig: Rig, url: string): Promise<Server> {
  return rig.startServer([...ownProcess("bare-streams"), url]);
}
