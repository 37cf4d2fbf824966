import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";

import { createLegacyToModernLink } from "../../bridge/legacy-to-modern/link.ts";
import { createModernToLegacyLink } from "../../bridge/modern-to-legacy/link.ts";
import type { SuspendedCalls } from "../../bridge/modern-to-legacy/suspended-calls.ts";
import type { FederationConfig, MemberConfig, RouteConfig } from "../../config/config.ts";
import type { ByteBudget } from "../../core/byte-budget.ts";
import { GatewayError } from "../../errors.ts";
import type { Federation } from "../../federation/federation.ts";
import type { ServerFactsStore } from "../../federation/member-facts.ts";
import type { OwnRequestObserver } from "../../federation/member-requests.ts";
import type { Seals } from "../../lib/keys/sealing.ts";
import { type Clock, limitKeyOf, type Principal, type SetTimer } from "../../core/exchange.ts";
import type { ParseLimits } from "../../protocol/message.ts";
import type { Logger } from "../../telemetry/log.ts";
import type { Metrics } from "../../telemetry/metrics.ts";
import type { Destination } from "../../telemetry/trace-context.ts";
import { createChannelLink, type OpenChannel } from "../../transports/channel-link.ts";
import { type McpServerFactory, openInProcessChannel } from "../../transports/in-process.ts";
import { openSseChannel } from "../../transports/legacy-sse/client.ts";
import { startChild } from "../../transports/stdio/child.ts";
import { createChildPool } from "../../transports/stdio/child-pool.ts";
import type { ChildEnvironment } from "../../transports/stdio/environment.ts";
import type { Watchdog } from "../../transports/stdio/watchdog.ts";
import { createSharedLinks } from "../../transports/shared/connection.ts";
import type { HttpEndpoint } from "../../transports/streamable-http/endpoint.ts";
import { createHttpLink } from "../../transports/streamable-http/link.ts";
import type { LinkEvents } from "../../transports/transport.ts";
import { createTransportDetectingLink, type DetectedTransport } from "./transport-detection.ts";
import { probeEra } from "./era-detection.ts";
import type { Era } from "../../protocol/revisions.ts";
import { createEraLinks } from "./era-links.ts";
import { openFederation } from "./federated-upstream.ts";
import type { LinkLimits, LinkScope, ModernSharing, OpenLink } from "./links.ts";
import { type CredentialDeps, openCredentials, openHttpUpstream } from "./http-upstream.ts";
import { readPem } from "../../lib/keys/pem.ts";

/** An upstream that links can be opened to. */
export interface OpenUpstream {
  readonly open: OpenLink;
  /** Opens a link for one probe of the era; `open`, if absent. */
  readonly openProbe?: OpenLink;
  readonly modernSharing: ModernSharing;
  readonly linkLimits: LinkLimits;
  /** Whether the upstream speaks modern HTTP, and so compares headers with bodies itself. */
  readonly seesHeaders: () => boolean;
  /** Whether headers that repeat arguments may be sent at all; as `seesHeaders`, if absent. */
  readonly sendsHeaders?: () => boolean;
  /** Several servers behind the route, as one. */
  readonly federation?: Federation;
  /** Prepares a change of those servers: all that are the same stay open. */
  readonly prepareMembers?: (
    config: FederationConfig,
    isSame: (member: string) => boolean,
    open: (member: MemberConfig) => OpenUpstream,
  ) => PreparedMembers;
  /** Whether a session with it lives in this process, so that no other can serve it: a child, or an open connection. */
  readonly holdsSessions: () => boolean;
  /** Who shares a server in this process beyond a session, where there is one. */
  readonly sharedServer: (era: Era) => ModernSharing | undefined;
  /** Identifies this upstream: a session with one is never offered to another. */
  readonly address: string;
  /** Where messages go, for traces. */
  readonly destination: Destination;
  /** The same for one of several servers. */
  readonly memberDestination?: (member: string) => Destination | undefined;
  /** The connections of an HTTP upstream, for passing bytes through. */
  readonly http?: HttpEndpoint;
  /** Ends connections and processes, after all links have been closed. */
  close(reason: string): Promise<void>;
}

/** New servers behind a route, ready to be used. */
export interface PreparedMembers {
  /** The newly opened ones, to be closed if the change is abandoned. */
  readonly opened: readonly OpenUpstream[];
  /** Uses them from the next message on; resolves when the old ones have been drained. */
  readonly commit: (graceMs: number) => Promise<void>;
}

/** What upstreams need of the gateway. */
export interface UpstreamDeps {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly limits: ParseLimits;
  readonly stdioLineBytes: number;
  readonly queueBytes: number;
  readonly newId: () => string;
  /** The environment from which children get the few variables that every program needs. */
  readonly environment: ChildEnvironment;
  readonly watchdog: Watchdog;
  /** Creates the built-in demo server. */
  readonly demo: McpServerFactory;
  /** Creates the server of this gateway's recordings. */
  readonly recordings: McpServerFactory;
  /** Calls of modern clients that wait for input a legacy server asked for. */
  readonly suspendedCalls: SuspendedCalls;
  /** Seals what clients carry and must not change. */
  readonly seals: Seals;
  /** Bounds the bytes of all that callers have in the gateway. */
  readonly bytes?: ByteBudget | undefined;
  /** Called with each line that a child writes to standard error. */
  readonly onStderr?: ((route: string, line: string) => void) | undefined;
  readonly credentials: CredentialDeps;
  /** Observes the requests of a federation itself to its members. */
  readonly ownRequests?: OwnRequestObserver | undefined;
  /** Remembers what the members of federations said about themselves; absent where nothing is kept. */
  readonly serverFacts?: ServerFactsStore | undefined;
}

/** Servers in this process take memory only. */
const inProcessLimits: LinkLimits = { perPrincipal: 16, total: 512, countsSessions: false };

/** How long a process may take to start before a warning is logged. */
const slowStartMs = 8000;
const slowStartHint =
  "npx, uvx or a similar tool may be downloading it; behind a proxy, pass what they need with --env NAME or `upstream.env`";

/** How long a shared process outlives its last session, so that reconnecting clients can reuse it. */
const lingerMs = 5000;

/** Opens a configured upstream. Nothing is connected or started before the first message. */
export function openUpstream(route: RouteConfig, deps: UpstreamDeps): OpenUpstream {
  const { upstream } = route;
  switch (upstream.type) {
    case "http":
      return acrossEras(route, openHttp(route, upstream, deps), deps);
    case "stdio":
      return acrossEras(route, openStdio(route, upstream, deps), deps);
    case "demo":
      return openInProcess(deps.demo, deps);
    case "recordings":
      return openInProcess(deps.recordings, deps);
    case "federation":
      return openFederation(route, upstream, deps, (member) => openMember(route, member, deps));
    case "in-process":
      // The configuration only checked that it is a function, not what it returns.
      return openInProcess(upstream.server as unknown as McpServerFactory, deps);
  }
}

function openMember(route: RouteConfig, member: MemberConfig, deps: UpstreamDeps): OpenUpstream {
  return openUpstream({ ...route, name: `${route.name}/${member.name}`, upstream: member.upstream }, deps);
}

/** Prepares a change of the servers behind a route that has several; undefined where that needs a new upstream. */
export function prepareMembers(
  { prepareMembers: prepare }: OpenUpstream,
  route: RouteConfig,
  before: UpstreamIdentity,
  deps: UpstreamDeps,
): PreparedMembers | undefined {
  const { members: now } = upstreamIdentityOf(route);
  if (prepare === undefined || now === undefined || route.upstream.type !== "federation") return undefined;
  const isSame = (name: string): boolean => isDeepStrictEqual(before.members?.get(name), now.get(name));
  return prepare(route.upstream, isSame, (member) => openMember(route, member, deps));
}

/** Lets clients of one era reach an upstream of the other. Servers in this process speak both. */
function acrossEras(route: RouteConfig, upstream: OpenUpstream, deps: UpstreamDeps): OpenUpstream {
  const { clock, setTimer, newId, log } = deps;
  const seesHeaders = upstream.seesHeaders();
  const eras = createEraLinks({
    era: configuredEra(route),
    plain: upstream.open,
    bridges: {
      toModern: (scope, events) =>
        createLegacyToModernLink({
          open: (own) => upstream.open({ ...scope, era: "modern", session: undefined }, own),
          events,
          setTimer,
          newId,
          validatesHeaders: seesHeaders,
        }),
      toLegacy: (scope, events) =>
        createModernToLegacyLink({
          openLegacy: (own) => upstream.open({ ...scope, era: "legacy", session: undefined }, own),
          events,
          suspendedCalls: deps.suspendedCalls,
          setTimer,
          newId,
          gatewayRequestMs: route.timeouts.quick,
        }),
    },
    probe: (principal) =>
      probeEra({
        route: route.name,
        principal,
        clock,
        setTimer,
        newId,
        open: () => {
          const scope: LinkScope = { era: "modern", principal, session: undefined, capabilities: "{}" };
          return (upstream.openProbe ?? upstream.open)(scope, noEvents);
        },
        silenceIsLegacy: upstream.http === undefined,
        // Half of the caller's time, because the other half may be needed for the older handshake.
        timeoutMs: upstream.http === undefined ? route.timeouts.quick / 2 : route.timeouts.quick,
      }),
    clock,
    onVerdict: (era) => {
      if (era === "silent")
        log.warn({ route: route.name }, "upstream did not answer `server/discover`; trying the legacy handshake");
      else log.info({ route: route.name, era }, "detected upstream era");
    },
  });
  return { ...upstream, open: eras.open, seesHeaders: () => seesHeaders && eras.servesModern() !== false };
}

/** Ignores all events; a probe needs only its answer. */
const noEvents: LinkEvents = { message: () => {}, malformed: () => {}, error: () => {}, closed: () => {} };

/** The configured era. HTTP+SSE is always legacy. */
function configuredEra({ upstream }: RouteConfig): "auto" | "legacy" | "modern" {
  if (upstream.type === "http" && upstream.transport === "sse") return "legacy";
  return upstream.type === "http" || upstream.type === "stdio" ? upstream.era : "auto";
}

type Config<Type extends RouteConfig["upstream"]["type"]> = Extract<RouteConfig["upstream"], { readonly type: Type }>;

function openHttp(route: RouteConfig, config: Config<"http">, deps: UpstreamDeps): OpenUpstream {
  const streams = deps.metrics.metrics.streams.labels({ route: route.name, leg: "upstream" });
  const { upstream, close } = openHttpUpstream(config, {
    forwardHeaders: route.forwardHeaders,
    connectMs: route.timeouts.connect,
    quickMs: route.timeouts.quick,
    limits: deps.limits,
    setTimer: deps.setTimer,
    newId: deps.newId,
    bytes: deps.bytes,
    credentials: config.credentials === undefined ? undefined : openCredentials(config.credentials, deps.credentials),
    onStream: (change) => {
      streams.inc(change);
    },
  });
  const overSse: OpenLink = (scope, events) =>
    scope.era === "modern"
      ? refusingLink("this upstream speaks HTTP+SSE, which 2026-07-28 does not have")
      : channelLink(
          async (channelEvents) =>
            openSseChannel(
              { ...upstream, principalOf: () => scope.session?.principal ?? scope.principal },
              channelEvents,
            ),
          scope.era,
          false,
          deps,
          events,
          "sse",
        );
  const overStreamable: OpenLink = (scope, events) => createHttpLink(upstream, scope.era, events);
  const verdict: DetectedTransport = { transport: undefined };
  const overEither: OpenLink = (scope, events) =>
    // HTTP+SSE is legacy, so for modern requests there is nothing to detect.
    scope.era === "modern"
      ? overStreamable(scope, events)
      : createTransportDetectingLink(
          verdict,
          events,
          (own) => overStreamable(scope, own),
          (own) => overSse(scope, own),
        );
  const open = { auto: overEither, "streamable-http": overStreamable, sse: overSse };
  return {
    open: open[config.transport],
    modernSharing: "everybody",
    linkLimits: inProcessLimits,
    seesHeaders: () => true,
    holdsSessions: () => config.transport === "sse" || verdict.transport === "sse",
    sharedServer: () => undefined,
    address: createHash("sha256").update(`${upstream.origin} ${upstream.path}`).digest("base64url").slice(0, 12),
    destination: { transport: "http", origin: upstream.origin },
    http: upstream,
    close,
  };
}

function openStdio(route: RouteConfig, config: Config<"stdio">, deps: UpstreamDeps): OpenUpstream {
  const { log, metrics } = deps;
  const children = metrics.metrics.children.labels({ route: route.name });
  let counted = 0;
  // One caller cannot take all processes.
  const maxPerOwner = Math.max(1, Math.floor(config.maxChildren / 2));
  const pool = createChildPool(
    { maxChildren: config.maxChildren, maxPerOwner },
    {
      start: (events) => {
        const command = [config.command, ...config.args].join(" ");
        log.info({ route: route.name, command }, "starting a server process");
        return startChild(
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
              deps.onStderr?.(route.name, line);
            },
            slowStart: {
              afterMs: slowStartMs,
              report: (pid) => {
                log.warn({ route: route.name, pid, hint: slowStartHint }, "server process has not answered yet");
              },
            },
          },
        );
      },
      clock: deps.clock,
      setTimer: deps.setTimer,
      // While a reload replaces an upstream, a route has two pools, so their sizes are added.
      onSize: (size) => {
        children.inc(size - counted);
        counted = size;
      },
      onCrash: () => {
        metrics.metrics.childRestarts.labels({ route: route.name }).inc();
      },
    },
  );
  // Read with every message, because a reload may change them while the upstream stays.
  const limits: ParseLimits = {
    get maxBytes() {
      return deps.stdioLineBytes;
    },
    get maxDepth() {
      return deps.limits.maxDepth;
    },
    get maxBatch() {
      return deps.limits.maxBatch;
    },
  };
  const context = (incarnation: string) => ({ type: "stdio", incarnation, command: config.command }) as const;
  const ownerOf = (principal: Principal): string => (config.sharing === "shared" ? "" : limitKeyOf(principal));
  const openFor =
    (owner: string): OpenChannel =>
    (events) =>
      pool.open(events, owner === "" ? undefined : owner);
  const shared = createSharedLinks(openFor, { limits, context, setTimer: deps.setTimer, lingerMs });
  return {
    // Not shared, so that its id is its own: a late answer is not taken for one to the next user of the process.
    openProbe: ({ era, principal }, events) =>
      createChannelLink(openFor(ownerOf(principal)), { era, isShared: false, limits, context }, events),
    open: ({ era, principal }, events) => {
      if (era === "modern" || config.sharing === "session") {
        return createChannelLink(
          openFor(ownerOf(principal)),
          { era, isShared: era === "modern", limits, context },
          events,
        );
      }
      return shared.open(config.sharing === "principal" ? principal.id : "", events);
    },
    modernSharing: config.sharing === "shared" ? "everybody" : "principal",
    linkLimits: {
      perPrincipal: maxPerOwner,
      total: config.maxChildren,
      countsSessions: config.sharing === "session",
    },
    seesHeaders: () => false,
    holdsSessions: () => true,
    sharedServer: (era) => {
      if (config.sharing === "shared") return "everybody";
      return era === "modern" || config.sharing === "principal" ? "principal" : undefined;
    },
    address: "stdio",
    destination: { transport: "stdio" },
    close: async (reason) => {
      await shared.close(reason);
      await pool.close(reason);
    },
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
        "in-process",
      ),
    modernSharing: "principal",
    linkLimits: inProcessLimits,
    seesHeaders: () => false,
    holdsSessions: () => true,
    sharedServer: (era) => (era === "modern" ? "principal" : undefined),
    address: "in-process",
    destination: { transport: "in-process" },
    close: async () => {},
  };
}

function channelLink(
  open: OpenChannel,
  era: "legacy" | "modern",
  isShared: boolean,
  deps: UpstreamDeps,
  events: Parameters<OpenLink>[1],
  type: "in-process" | "sse",
) {
  return createChannelLink(
    open,
    {
      era,
      isShared,
      limits: deps.limits,
      context: (incarnation) => (type === "sse" ? { type, stream: incarnation } : { type }),
    },
    events,
  );
}

/** A link that refuses every message. */
function refusingLink(reason: string): ReturnType<OpenLink> {
  const refuse = async (): Promise<never> => {
    throw new GatewayError("upstream_invalid", reason);
  };
  return {
    incarnation: "none",
    upstreamSession: undefined,
    hasBackpressure: false,
    request: refuse,
    send: refuse,
    listen: () => {},
    close: async () => {},
  };
}

/** Everything that defines a route's upstream. */
export interface UpstreamIdentity {
  readonly upstream: RouteConfig["upstream"];
  /** In observe mode, how messages are checked: the pass-through is made with that. */
  readonly observed: RouteConfig["validation"] | undefined;
  /** Each of several servers. */
  readonly members?: ReadonlyMap<string, UpstreamIdentity>;
  /** What is fixed for the lifetime of HTTP connections. */
  readonly http:
    | {
        readonly connectMs: number;
        readonly forwardHeaders: readonly string[];
        /** Digests of certificates and keys, because rotation replaces files under the same names. */
        readonly pemDigests: readonly string[];
      }
    | undefined;
}

/** The identity of a configured upstream. Throws if one of its files cannot be read. */
export function upstreamIdentityOf(config: RouteConfig): UpstreamIdentity {
  const { upstream, timeouts, forwardHeaders } = config;
  const observed = config.mode === "observe" ? config.validation : undefined;
  if (upstream.type === "federation") {
    const members = upstream.members.map(
      (member) => [member.name, upstreamIdentityOf({ ...config, upstream: member.upstream })] as const,
    );
    return { upstream, observed, http: undefined, members: new Map(members) };
  }
  if (upstream.type !== "http") return { upstream, observed, http: undefined };
  const { caFile, certFile, keyFile } = upstream.tls ?? {};
  const pemDigests = [caFile, certFile, keyFile].map((file) =>
    file === undefined ? "" : createHash("sha256").update(readPem(file)).digest("hex"),
  );
  return { upstream, observed, http: { connectMs: timeouts.connect, forwardHeaders, pemDigests } };
}

/** Whether the connections and processes of one can be used for the other. */
export function isSameUpstream(one: UpstreamIdentity, other: UpstreamIdentity): boolean {
  return isDeepStrictEqual(one, other);
}
