import type { Route as RouteConfig } from "../config/config.ts";
import { GatewayError } from "../errors.ts";
import type { Clock, SetTimer } from "../exchange.ts";
import type { ParseLimits } from "../protocol/message.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { createChannelLink } from "../transports/channel-link.ts";
import type { OpenChannel } from "../transports/channel-link.ts";
import { openInProcessChannel } from "../transports/in-process/client.ts";
import type { McpServerFactory } from "../transports/in-process/client.ts";
import { openSseChannel } from "../transports/legacy-sse/client.ts";
import { startChild } from "../transports/stdio/child.ts";
import { createChildPool } from "../transports/stdio/pool.ts";
import type { Environment } from "../transports/stdio/environment.ts";
import type { Watchdog } from "../transports/stdio/watchdog.ts";
import { createHttpLink } from "../transports/streamable-http/client.ts";
import type { HttpUpstream } from "../transports/streamable-http/client.ts";
import { createAutoLink } from "./auto-link.ts";
import type { HttpVerdict } from "./auto-link.ts";
import type { ModernSharing, OpenLink } from "./links.ts";
import { openHttpUpstream } from "./upstream-http.ts";

/** The way to a route's upstream. */
export interface OpenUpstream {
  readonly open: OpenLink;
  readonly modernSharing: ModernSharing;
  /** Whether the upstream speaks HTTP, and so can compare headers with bodies itself. */
  readonly seesHeaders: boolean;
  /** The connections themselves, where the upstream is reached over HTTP: for passing bytes through. */
  readonly http?: HttpUpstream;
  /** Ends connections and processes; links have been closed before. */
  close(reason: string): Promise<void>;
}

/** What upstreams need of the gateway around them. */
export interface UpstreamDeps {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly limits: ParseLimits;
  readonly stdioLineBytes: number;
  readonly queueBytes: number;
  readonly newId: () => string;
  /** The environment of which children get the few variables that every program needs. */
  readonly environment: Environment;
  readonly watchdog: Watchdog;
  /** Makes the built-in demo server. */
  readonly demo: McpServerFactory;
}

/** Opens the way to an upstream, as it is configured. Nothing is connected or started before a message goes out. */
export function openUpstream(route: RouteConfig, deps: UpstreamDeps): OpenUpstream {
  const { upstream } = route;
  switch (upstream.type) {
    case "http":
      return openHttp(route, upstream, deps);
    case "stdio":
      return openStdio(route, upstream, deps);
    case "demo":
      return openInProcess(deps.demo, deps);
    case "in-process":
      // The configuration has checked that it is a function; what it makes is the caller's promise.
      return openInProcess(upstream.server as unknown as McpServerFactory, deps);
  }
}

type Config<Type extends RouteConfig["upstream"]["type"]> = Extract<
  RouteConfig["upstream"],
  { readonly type: Type }
>;

function openHttp(route: RouteConfig, config: Config<"http">, deps: UpstreamDeps): OpenUpstream {
  const streams = deps.metrics.metrics.streams.labels({ route: route.name, leg: "upstream" });
  const { upstream, close } = openHttpUpstream(config, {
    forwardHeaders: route.forwardHeaders,
    connectMs: route.timeouts.connect,
    limits: deps.limits,
    setTimer: deps.setTimer,
    newId: deps.newId,
    onStream: (change) => {
      streams.inc(change);
    },
  });
  const overSse: OpenLink = (scope, events) =>
    scope.era === "modern"
      ? refusingLink("this upstream speaks HTTP+SSE, which has no 2026-07-28")
      : channelLink(
          async (channelEvents) => openSseChannel(upstream, channelEvents),
          scope.era,
          false,
          deps,
          events,
          {
            type: "sse",
          },
        );
  const overStreamable: OpenLink = (scope, events) => createHttpLink(upstream, scope.era, events);
  const verdict: HttpVerdict = { transport: undefined };
  const overEither: OpenLink = (scope, events) =>
    // HTTP+SSE has no modern era, so there is nothing to find out for modern requests.
    scope.era === "modern"
      ? overStreamable(scope, events)
      : createAutoLink(
          verdict,
          () => overStreamable(scope, events),
          () => overSse(scope, events),
        );
  const open = { auto: overEither, "streamable-http": overStreamable, sse: overSse };
  return {
    open: open[config.transport],
    modernSharing: "everybody",
    seesHeaders: true,
    http: upstream,
    close,
  };
}

function openStdio(route: RouteConfig, config: Config<"stdio">, deps: UpstreamDeps): OpenUpstream {
  const { log, metrics } = deps;
  const pool = createChildPool(
    { maxChildren: config.maxChildren },
    {
      start: (events) =>
        startChild(
          {
            command: config.command,
            args: config.args,
            env: config.env,
            ...(config.cwd === undefined ? {} : { cwd: config.cwd }),
            maxLineBytes: deps.stdioLineBytes,
            maxQueueBytes: deps.queueBytes,
          },
          events,
          {
            environment: deps.environment,
            newId: deps.newId,
            setTimer: deps.setTimer,
            watchdog: deps.watchdog,
            onStderr: (line, pid) => {
              log.info({ route: route.name, pid, line }, "server says");
            },
          },
        ),
      clock: deps.clock,
      setTimer: deps.setTimer,
      onSize: (size) => {
        metrics.metrics.children.labels({ route: route.name }).set(size);
      },
      onCrash: () => {
        metrics.metrics.childRestarts.labels({ route: route.name }).inc();
      },
    },
  );
  return {
    open: (scope, events) =>
      channelLink(
        (channelEvents) => pool.open(channelEvents),
        scope.era,
        scope.era === "modern",
        deps,
        events,
        {
          type: "stdio",
          command: config.command,
        },
      ),
    modernSharing: config.sharing === "shared" ? "everybody" : "principal",
    seesHeaders: false,
    close: (reason) => pool.close(reason),
  };
}

function openInProcess(factory: McpServerFactory, deps: UpstreamDeps): OpenUpstream {
  return {
    open: (scope, events) =>
      channelLink(
        (channelEvents) => openInProcessChannel(factory, channelEvents, deps.newId),
        scope.era,
        scope.era === "modern",
        deps,
        events,
        { type: "in-process" },
      ),
    modernSharing: "principal",
    seesHeaders: false,
    close: async () => {},
  };
}

type ChannelKind =
  | { readonly type: "stdio"; readonly command: string }
  | { readonly type: "in-process" | "sse" };

function channelLink(
  open: OpenChannel,
  era: "legacy" | "modern",
  isShared: boolean,
  deps: UpstreamDeps,
  events: Parameters<OpenLink>[1],
  kind: ChannelKind,
) {
  return createChannelLink(
    open,
    {
      era,
      isShared,
      limits: deps.limits,
      context: (incarnation) =>
        kind.type === "stdio"
          ? { type: "stdio", incarnation, command: kind.command }
          : kind.type === "sse"
            ? { type: "sse", stream: incarnation }
            : { type: "in-process" },
    },
    events,
  );
}

/** A link that says why nothing can go over it. */
function refusingLink(reason: string): ReturnType<OpenLink> {
  const refuse = async (): Promise<never> => {
    throw new GatewayError("upstream_invalid", reason);
  };
  return {
    incarnation: "none",
    upstreamSession: undefined,
    isPausable: false,
    request: refuse,
    send: refuse,
    listen: () => {},
    close: async () => {},
  };
}
