import type { RequestListener } from "node:http";
import { pipeline } from "node:stream";

import { createWorkerStore, storeCallLimits, type WorkerStore } from "../../cluster/worker-store.ts";
import type { Config, ServerUpstream, Upstream } from "../../config/config.ts";
import type { WorkerSeat } from "../../gateway/context.ts";
import { respondText } from "../../gateway/edge/router.ts";
import { type CallBounds, connectCalls, type RemoteCalls } from "../../cluster/process-calls.ts";
import { GatewayError } from "../../errors.ts";
import { systemTimer } from "../../lib/clock.ts";
import { nodeHttp } from "../../lib/lazy-modules.ts";
import { exitCodes } from "../commands.ts";
import type { ServingIo } from "../io.ts";
import { type PreparedConfig, type ProcessRole, startGateway, type StartOptions } from "./start.ts";
import type { PrimaryCalls, WorkerCalls, WorkerStart } from "./worker-slot.ts";

/** The calls that a worker answers, besides notices about the others. */
export type WorkerAnswers = Omit<WorkerCalls, "peers" | "sessionEnded">;

/** This process as one of several. */
export interface JoinedWorker {
  readonly start: WorkerStart;
  readonly primary: RemoteCalls<PrimaryCalls>;
  readonly seat: (config: Config) => WorkerSeat;
  /** Reads the files that all workers begin with. */
  readonly readFile: (path: string) => Promise<string>;
  /** Answers the process that started this one. */
  readonly serve: (answers: WorkerAnswers) => void;
  /** Resolves when the process that started this one has gone. */
  readonly orphaned: Promise<void>;
}

/** A start waits for a reload that is under way, and that for the other workers. */
const beginMs = 60_000;
const tellMs = 2000;
/** How long the process that started this one may take, in milliseconds. */
const primaryLimits: CallBounds<PrimaryCalls>["limitMs"] = {
  ...storeCallLimits,
  begin: beginMs,
  ready: beginMs,
  failed: tellMs,
  ending: tellMs,
  // The recording and the audit limit them, and do not call again while nothing answers.
  record: undefined,
  audit: undefined,
};

/** Connects this process to the one that started it. */
export async function joinPrimary(): Promise<JoinedWorker> {
  const orphaned = Promise.withResolvers<void>();
  const serving = Promise.withResolvers<WorkerAnswers>();
  const channel = {
    send: (message: unknown) => process.send?.(message, undefined, undefined, () => {}),
    onMessage: (listener: (message: unknown) => void) => process.on("message", listener),
    onGone: (listener: () => void) => process.once("disconnect", listener),
  };
  const answers: WorkerCalls = {
    peers: (urls) => store.peers(urls),
    sessionEnded: (id) => store.sessionEnded(id),
    samples: async () => (await serving.promise).samples(),
    health: async () => (await serving.promise).health(),
    prepare: async (files) => (await serving.promise).prepare(files),
    commit: async () => (await serving.promise).commit(),
    stop: async () => (await serving.promise).stop(),
  };
  const bounds = { limitMs: primaryLimits, setTimer: systemTimer };
  const primary: RemoteCalls<PrimaryCalls> = connectCalls<WorkerCalls, PrimaryCalls>(channel, answers, bounds);
  const store: WorkerStore = createWorkerStore(primary);
  channel.onGone(orphaned.resolve);
  const start = await primary.begin();
  return {
    start,
    primary,
    seat: ({ state }) => ({
      key: start.key,
      store: state.redis === undefined && state.postgres === undefined ? store : undefined,
      record: primary.record,
      audit: primary.audit,
      admin: forwardTo(start.adminSocket),
    }),
    readFile: fileReader(start.files),
    serve: serving.resolve,
    orphaned: orphaned.promise,
  };
}

/** Reads files from memory, as another process read them. */
export function fileReader(files: ReadonlyMap<string, string>): (path: string) => Promise<string> {
  return async (path) => {
    const text = files.get(path);
    if (text === undefined) throw new Error("cannot be read");
    return text;
  };
}

/** Which worker this is, and where. How many there are may differ from the configuration, which a reload changes. */
type PlaceOfWorker = Pick<WorkerStart, "worker" | "workers" | "address" | "secret">;

const parts = [
  "requests",
  "requestsPerPrincipal",
  "pending",
  "pendingPerPrincipal",
  "sessions",
  "sessionsPerPrincipal",
  "suspendedCalls",
  "suspendedCallsPerPrincipal",
] as const;

/** The configuration of one worker: its share of the limits, and where the others reach it. */
export function workerConfig(config: Config, { worker, workers, address, secret }: PlaceOfWorker): Config {
  const { limits, cluster, listen } = config;
  // A free port was chosen once for all; a Unix socket has none.
  const port = Number(URL.parse(address)?.port) || listen.port;
  const share = (limit: number): number => Math.max(1, Math.floor(limit / workers));
  const divided = Object.fromEntries(parts.map((key) => [key, share(limits[key])]));
  const routes = Object.entries(config.routes).map(([name, route]) => {
    return [name, { ...route, upstream: withShare(route.upstream, share) }] as const;
  });
  return {
    ...config,
    listen: { ...listen, port },
    limits: { ...limits, ...divided },
    routes: Object.fromEntries(routes),
    cluster:
      cluster === undefined ? { listen: { host: "127.0.0.1", port: 0 }, secret } : clusterPlace(cluster, worker - 1),
  };
}

type Share = (limit: number) => number;

/** A server with the part of its connections that one worker may open. */
function withShare(upstream: Upstream, share: Share): Upstream {
  if (upstream.type !== "federation") return serverWithShare(upstream, share);
  const members = upstream.members.map((member) => ({ ...member, upstream: serverWithShare(member.upstream, share) }));
  return { ...upstream, members };
}

function serverWithShare(server: ServerUpstream, share: Share): ServerUpstream {
  return server.type === "http" ? { ...server, connections: share(server.connections) } : server;
}

/** Among several machines, the workers of one listen at ports in a row. */
function clusterPlace(cluster: NonNullable<Config["cluster"]>, offset: number): Config["cluster"] {
  const { listen, advertise } = cluster;
  const port = listen.port === 0 ? 0 : listen.port + offset;
  if (advertise === undefined) return { ...cluster, listen: { ...listen, port } };
  const { protocol, hostname, port: advertised } = new URL(advertise);
  const known = advertised === "" ? (protocol === "https:" ? 443 : 80) : Number(advertised);
  return { ...cluster, listen: { ...listen, port }, advertise: `${protocol}//${hostname}:${known + offset}` };
}

/** How long an answer for operators may take to begin. */
const adminMs = 60_000;

/** Hands requests of operators to the process that serves them. */
function forwardTo(socketPath: string): RequestListener {
  return (request, response) => {
    const { method, url, headers } = request;
    const sent = nodeHttp.request({ socketPath, method, path: url, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      response.flushHeaders();
      pipeline(answer, response, () => {});
    });
    // Answers may take their time, and streams last; a process that has stopped begins none.
    const stopTimer = systemTimer(adminMs, () => sent.destroy(new Error("no answer")));
    sent.on("response", stopTimer);
    sent.on("error", () => {
      if (response.headersSent) response.destroy();
      else respondText(response, 503, "the process that serves operators is starting, does not answer, or has ended");
    });
    response.on("close", () => {
      stopTimer();
      sent.destroy();
    });
    pipeline(request, sent, () => {});
  };
}

/** `headgate run` in a worker: serves clients until the process that started it ends it or is gone. */
export async function runWorker(options: StartOptions, io: ServingIo): Promise<number> {
  const { start, primary, seat, readFile, serve, orphaned } = await joinPrimary();
  const stopping = Promise.withResolvers<void>();
  // The process that started this one has already reported everything about the configuration.
  const quiet: ServingIo = { ...io, readFile, err: () => {} };
  const role: ProcessRole = {
    worker: start.worker,
    adapt: (config) => workerConfig(config, start),
    seats: (config) => ({ worker: seat(config) }),
  };
  try {
    const { gateway, log, prepare } = await startGateway(options, quiet, role);
    let prepared: PreparedConfig | undefined;
    serve({
      samples: () => gateway.samples(),
      health: () => gateway.health(),
      prepare: async (files) => {
        prepared = await prepare(fileReader(files));
        return prepared.ok ? undefined : prepared.problem;
      },
      commit: async () => {
        const outcome = prepared?.ok === true ? await prepared.apply() : undefined;
        return outcome?.ok === true ? undefined : (outcome?.problem ?? "nothing was prepared");
      },
      stop: stopping.resolve,
    });
    try {
      await gateway.listen();
      // Reads it when it goes on, if it has stopped; this worker serves clients either way.
      primary.ready().catch(() => {});
      await Promise.race([stopping.promise, orphaned, io.stopped()]);
    } finally {
      await gateway.close();
      await primary.ending(gateway.samples()).catch(() => {});
      log.flush();
    }
    return gateway.lostRecords() > 0 ? exitCodes.failed.code : exitCodes.ok.code;
  } catch (error) {
    await primary.failed(GatewayError.from(error).message).catch(() => {});
    return exitCodes.failed.code;
  } finally {
    // Its channel would keep this process alive.
    if (process.connected) process.disconnect();
  }
}
