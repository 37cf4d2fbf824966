import { resolve as resolvePath } from "node:path";

import { isLoopback } from "../lib/addresses.ts";
import { authProblems, authWarnings, resolveRouteAuth } from "./checks/auth.ts";
import {
  type Config,
  type ParsedUpstream,
  type RouteConfig,
  type RouteTimeouts,
  type ServerUpstream,
  unnamedRoute,
  type Upstream,
} from "./config.ts";
import { policyWarnings } from "./checks/policy.ts";
import { federationProblems } from "./checks/federation.ts";
import { formatDuration } from "../lib/duration.ts";
import { withoutUndefined } from "../lib/without-undefined.ts";
import { memberNameOf, routeNameOf } from "./mcp-servers.ts";
import { settingProblems, settingWarnings } from "./checks/settings.ts";
import type { InterceptorConfig } from "./interceptors.ts";
import { type ConfigFinding, formatPath, type Path } from "./issues.ts";
import { resolveLimits } from "./limits.ts";
import { type ValidationLevel, type ValidationSettings, validationSettings } from "../protocol/validation/validate.ts";
import { routeConfig } from "./routes.ts";
import type { ParsedConfig } from "./schema.ts";
import type { Secrets } from "./secrets.ts";
import type { Environment } from "./substitute.ts";

/** What resolving a configuration needs. */
export interface ResolveDeps {
  readonly env: Environment;
  readonly secrets: Secrets;
  /** The folder that paths are relative to. Default: the working directory. */
  readonly folder?: string;
}

/** A resolved configuration and its problems. */
export interface ResolvedConfig {
  readonly config: Config;
  readonly problems: readonly ConfigFinding[];
  readonly warnings: readonly ConfigFinding[];
}

/** Resolves the routes of all forms and checks what involves several fields. */
export function resolveConfig(written: ParsedConfig, surroundings: ResolveDeps): ResolvedConfig {
  const {
    $schema: _schema,
    routes: _routes,
    upstream: _upstream,
    mcpServers: _servers,
    federate: _federate,
    ...rest
  } = written;
  const { list, problems, warnings } = collectRoutes(written);
  const path = (text: string): string =>
    surroundings.folder === undefined ? text : resolvePath(surroundings.folder, text);
  const routes = list.map(({ name, written: route }): RouteConfig => {
    const isUnnamed = name === unnamedRoute && (written.upstream !== undefined || written.federate);
    const named = isUnnamed ? [] : [`/${name}`];
    return {
      name,
      prefixes: named.length === 0 || list.length === 1 ? [...named, ""] : named,
      upstream: resolveRouteUpstream(route, surroundings.env, path),
      mode: route.mode,
      validation: validationSettings(route.mode, chosenValidation(route.validation ?? written.validation)),
      forwardHeaders: route.forwardHeaders,
      timeouts: resolveTimeouts(written.timeouts, route.timeouts),
      rates: route.rates ?? written.rates,
      cors: route.cors ?? written.cors,
      auth: resolveRouteAuth(written.auth, route.auth),
      policy: resolvePolicy(route.policy ?? written.policy, path),
    };
  });
  const config: Config = {
    ...rest,
    limits: resolveLimits(rest.limits),
    listen: resolveListen(rest.listen, path),
    cluster: resolveCluster(rest.cluster, path),
    state: resolveState(rest.state, path),
    ...(rest.audit === undefined ? {} : { audit: { ...rest.audit, file: path(rest.audit.file) } }),
    ...(rest.drift === undefined ? {} : { drift: { ...rest.drift, lock: path(rest.drift.lock) } }),
    ...(rest.record === undefined || rest.record === false || rest.record.file === undefined
      ? {}
      : { record: { ...rest.record, file: path(rest.record.file) } }),
    routes: Object.fromEntries(routes.flatMap(withViews).map((route) => [route.name, route])),
    interceptors: [
      ...placedInterceptors(written.interceptors, [], undefined, path),
      ...list.flatMap((route) => placedInterceptors(route.written.interceptors, route.path, route.name, path)),
    ],
    secrets: surroundings.secrets,
  };
  const placed = list.flatMap(({ path: place, written: route }, index) => {
    const resolved = routes[index];
    return resolved === undefined ? [] : [{ path: place, written: route, route: resolved }];
  });
  return {
    config,
    problems: [
      ...problems,
      ...authProblems(config, placed),
      ...listenProblems(config),
      ...timeoutProblems(list, config),
      ...observeProblems(list, written),
      ...federationProblems(placed),
      ...clusterProblems(config),
      ...peerPortProblems(config),
      ...workerProblems(config),
      ...settingProblems(config),
    ],
    warnings: [
      ...warnings,
      ...authWarnings(config, placed),
      ...trustWarnings(list),
      ...policyWarnings(config.auth, written.policy, placed),
      ...settingWarnings(config, Date.now()),
    ],
  };
}

/** Gateways that serve each other's sessions must find each other and open the same ids. */
function clusterProblems({ cluster, state }: Pick<Config, "cluster" | "state">): readonly ConfigFinding[] {
  const both = { path: ["state", "postgres"], message: "cannot be combined with `state.redis`" };
  const problems: ConfigFinding[] = state.redis !== undefined && state.postgres !== undefined ? [both] : [];
  if (cluster === undefined) return problems;
  const needs = (what: string): ConfigFinding => ({
    path: ["cluster"],
    message: `needs ${what}, the same for all gateways`,
  });
  if (state.redis === undefined && state.postgres === undefined)
    problems.push(needs("`state.redis` or `state.postgres`"));
  if (state.keys === undefined) problems.push(needs("`state.keys`"));
  if (cluster.secret === undefined && cluster.tls === undefined) problems.push(needs("`secret` or `tls`"));
  const scheme = cluster.tls === undefined ? "http" : "https";
  if (cluster.advertise?.startsWith(`${scheme}:`) === false)
    problems.push({ path: ["cluster", "advertise"], message: `must begin with ${scheme}:// to match \`cluster.tls\`` });
  return problems;
}

/** Each worker listens for peers on its own port, which must be valid and not taken by another listener. */
function peerPortProblems({ cluster, workers, listen, admin }: Config): readonly ConfigFinding[] {
  if (cluster === undefined || cluster.listen.port === 0) return [];
  const path = ["cluster", "listen", "port"];
  const first = cluster.listen.port;
  const last = first + workers - 1;
  if (last > 65_535)
    return [{ path, message: `must be at most ${65_536 - workers}: each of ${workers} workers has its own port` }];
  const others = [
    ...(listen.unixSocket === undefined ? [{ name: "listen", port: listen.port }] : []),
    ...(admin === false ? [] : [{ name: "admin", port: admin.port }]),
  ];
  return others
    .filter(({ port }) => port >= first && port <= last)
    .map(({ name, port }) => ({
      path,
      message:
        workers === 1
          ? `is also \`${name}.port\`; choose another`
          : `peers of ${workers} workers need ${first} to ${last}, and \`${name}.port\` is ${port}; choose another`,
    }));
}

const perPrincipal = [
  "requestsPerPrincipal",
  "pendingPerPrincipal",
  "sessionsPerPrincipal",
  "suspendedCallsPerPrincipal",
] as const;

/**
 * Several processes on one port find each other through the process that started them, unless a store is configured.
 */
function workerProblems({ workers, cluster, state, limits }: Config): readonly ConfigFinding[] {
  if (workers === 1) return [];
  const hasStore = state.redis !== undefined || state.postgres !== undefined;
  const lone: ConfigFinding = {
    path: ["workers"],
    message: `with \`state.${state.redis === undefined ? "postgres" : "redis"}\` needs \`cluster\` too: each worker is one of the gateways`,
  };
  return [
    ...(hasStore && cluster === undefined ? [lone] : []),
    // Each worker gets an equal share of the concurrency limits, at least one.
    ...perPrincipal
      .filter((key) => limits[key] < workers)
      .map((key) => ({ path: ["limits", key], message: `must be at least ${workers}, the number of \`workers\`` })),
  ];
}

type WrittenValidation = ParsedConfig["validation"];

/** The chosen levels without the others, which keep their defaults. */
function chosenValidation(written: WrittenValidation): ValidationLevel | Partial<ValidationSettings> {
  if (typeof written === "string") return written;
  return withoutUndefined(written ?? {});
}

/** A route and its views, each as a separate route. */
function withViews(route: RouteConfig): readonly RouteConfig[] {
  const { upstream, name } = route;
  if (upstream.type !== "federation") return [route];
  const views = upstream.views.map((view) => ({
    ...route,
    name: `${name}/${view.name}`,
    prefixes: [`/${name}/${view.name}`],
    upstream: { ...upstream, view },
  }));
  return [route, ...views];
}

function placedInterceptors(
  written: ParsedConfig["interceptors"],
  place: Path,
  route: string | undefined,
  path: (text: string) => string,
): readonly InterceptorConfig[] {
  return written.map((entry, index) => ({
    ...entry,
    file: resolvePath(path(entry.file)),
    place: formatPath([...place, "interceptors", index]),
    route,
  }));
}

/** A route that only observes passes bytes on: it needs the same transport on both sides, and can refuse nothing. */
function observeProblems(list: readonly ListedRoute[], { policy, validation }: ParsedConfig): readonly ConfigFinding[] {
  return list.flatMap(({ path, written }) => {
    if (written.mode !== "observe") return [];
    const problems: ConfigFinding[] = [];
    if (written.upstream?.type !== "http")
      problems.push({ path: [...path, "mode"], message: "`observe` needs an upstream with a `url`" });
    if ((written.policy ?? policy) !== undefined) {
      const which = written.policy === undefined ? "the general `policy`" : "a `policy`";
      const message = `\`observe\` forwards everything, so ${which} cannot be enforced here; use \`mode: enforce\`, with \`policy.shadow: true\` to try a policy out`;
      problems.push({ path: [...path, "mode"], message });
    }
    const chosen = written.validation ?? validation;
    if (typeof chosen === "object" && Object.values(chosen).includes("enforce")) {
      const place = written.validation === undefined ? [] : path;
      const message = "`observe` forwards everything; use `warn`, or `mode: enforce`";
      problems.push({ path: [...place, "validation"], message });
    }
    if (written.interceptors.length > 0) {
      const message = "`observe` forwards everything; use `mode: enforce`";
      problems.push({ path: [...path, "interceptors"], message });
    }
    return problems;
  });
}

type ParsedRoute = ParsedConfig["routes"][string];

interface ListedRoute {
  readonly name: string;
  /** Path of the route in the configuration. */
  readonly path: Path;
  readonly written: ParsedRoute;
}

function collectRoutes({ routes, upstream, mcpServers, federate }: ParsedConfig) {
  const list: ListedRoute[] = [];
  const problems: ConfigFinding[] = [];
  const warnings: ConfigFinding[] = [];
  const add = (route: ListedRoute): void => {
    const other = list.find(({ name }) => name === route.name);
    if (other === undefined) list.push(route);
    else problems.push({ path: route.path, message: `duplicate route name \`${route.name}\`` });
  };
  const defaults = routeConfig.omit({ upstream: true }).parse({});

  if (upstream !== undefined) {
    add({ name: unnamedRoute, path: ["upstream"], written: { ...defaults, upstream } });
  }
  for (const [name, written] of Object.entries(routes)) add({ name, path: ["routes", name], written });
  if (federate) {
    const joined = joinServers(mcpServers);
    problems.push(...joined.problems);
    warnings.push(...joined.warnings);
    if (Object.keys(joined.upstreams).length === 0)
      problems.push({ path: ["federate"], message: "needs `mcpServers`" });
    else add({ name: unnamedRoute, path: ["mcpServers"], written: { ...defaults, upstreams: joined.upstreams } });
  }
  for (const [server, target] of federate ? [] : Object.entries(mcpServers)) {
    const path = ["mcpServers", server];
    const name = routeNameOf(server);
    if (name === undefined) {
      problems.push({ path, message: "the name has no character that can be used in a URL" });
      continue;
    }
    if (name !== server) warnings.push({ path, message: `is served as route \`${name}\`` });
    add({ name, path, written: { ...defaults, upstream: target } });
  }
  if (list.length === 0 && problems.length === 0) {
    problems.push({ path: [], message: "no routes: set `upstream`, `routes` or `mcpServers`" });
  }
  return { list, problems, warnings };
}

/** The servers of clients as members of a federation. */
function joinServers(servers: ParsedConfig["mcpServers"]) {
  const upstreams: Record<string, NonNullable<ParsedRoute["upstreams"]>[string]> = {};
  const problems: ConfigFinding[] = [];
  const warnings: ConfigFinding[] = [];
  for (const [server, target] of Object.entries(servers)) {
    const path = ["mcpServers", server];
    const name = memberNameOf(server);
    if (name === undefined) problems.push({ path, message: "the name has no character that tool names allow" });
    else if (Object.hasOwn(upstreams, name)) problems.push({ path, message: `duplicate server name \`${name}\`` });
    else {
      if (name !== server) warnings.push({ path, message: `its names begin with \`${name}\`` });
      upstreams[name] = { ...target, uris: "keep", required: false };
    }
  }
  return { upstreams, problems, warnings };
}

function resolveRouteUpstream(route: ParsedRoute, env: Environment, path: (text: string) => string): Upstream {
  const { upstream, upstreams = {}, federation, overrides } = route;
  const views = Object.entries(route.views).map(([name, view]) => ({ name, ...view }));
  if (upstream !== undefined) return resolveUpstream(upstream, env, path);
  const members = Object.entries(upstreams).map(([name, { prefix, title, tools, uris, required, ...server }]) => ({
    name,
    prefix: prefix ?? name,
    title: title ?? name,
    allowedTools: tools?.allow,
    uris,
    required,
    upstream: resolveUpstream(server, env, path),
  }));
  return { type: "federation", members, overrides, views, view: undefined, ...federation };
}

function resolveUpstream(upstream: ParsedUpstream, env: Environment, path: (text: string) => string): ServerUpstream {
  if (upstream.type === "stdio") {
    return upstream.cwd === undefined ? upstream : { ...upstream, cwd: path(upstream.cwd) };
  }
  if (upstream.type !== "http") return upstream;
  const { proxy, tls, url } = upstream;
  return {
    ...upstream,
    proxy: proxy === "auto" ? proxyFromEnvironment(new URL(url), env) : proxy === "none" ? undefined : proxy,
    ...(tls === undefined ? {} : { tls: { ...tls, ...withPaths(tls, path) } }),
  };
}

function resolveState(state: ParsedConfig["state"], path: (text: string) => string): Config["state"] {
  const { folder, redis } = state;
  return {
    ...state,
    ...(folder === undefined ? {} : { folder: path(folder) }),
    ...(redis?.tls === undefined ? {} : { redis: { ...redis, tls: withPaths(redis.tls, path) } }),
  };
}

function resolveCluster(cluster: ParsedConfig["cluster"], path: (text: string) => string): Config["cluster"] {
  return cluster?.tls === undefined
    ? cluster
    : { ...cluster, tls: { ...cluster.tls, ...withPaths(cluster.tls, path) } };
}

function resolveListen(listen: ParsedConfig["listen"], path: (text: string) => string): Config["listen"] {
  const { tls, unixSocket } = listen;
  return {
    ...listen,
    ...(unixSocket === undefined ? {} : { unixSocket: path(unixSocket) }),
    ...(tls === undefined ? {} : { tls: { ...tls, ...withPaths(tls, path) } }),
  };
}

/** The policy with absolute paths. */
function resolvePolicy(policy: ParsedConfig["policy"], path: (text: string) => string): RouteConfig["policy"] {
  if (policy === undefined) return undefined;
  const { pingAuthorize, authzen } = policy;
  return {
    ...policy,
    ...(pingAuthorize?.tls === undefined
      ? {}
      : { pingAuthorize: { ...pingAuthorize, tls: withPaths(pingAuthorize.tls, path) } }),
    ...(authzen?.tls === undefined ? {} : { authzen: { ...authzen, tls: withPaths(authzen.tls, path) } }),
  };
}

type PemFile = "certFile" | "keyFile" | "caFile";

function withPaths(
  files: { readonly [File in PemFile]?: string | undefined },
  path: (text: string) => string,
): { [File in PemFile]?: string } {
  const names = ["certFile", "keyFile", "caFile"] as const;
  const given = names.flatMap((name) => (files[name] === undefined ? [] : [[name, path(files[name])] as const]));
  return Object.fromEntries(given);
}

function resolveTimeouts(general: ParsedConfig["timeouts"], own: ParsedRoute["timeouts"]): RouteTimeouts {
  return {
    connect: own.connect ?? general.connect,
    quick: own.quick ?? general.quick,
    tool: own.tool ?? general.tool,
    human: own.human ?? general.human,
    hard: own.hard ?? general.hard,
    streamKeepAlive: own.streamKeepAlive ?? general.streamKeepAlive,
    tools: own.tools,
  };
}

function listenProblems({ listen, admin }: Config): readonly ConfigFinding[] {
  const problems: ConfigFinding[] = [];
  const overTcp = listen.unixSocket === undefined;
  if (admin === false) return problems;
  if (!isLoopback(admin.host) && !admin.allowAnonymous) {
    problems.push({
      path: ["admin", "host"],
      message: "not a loopback address, and there is no authentication; set `admin.allowAnonymous: true` to allow that",
    });
  }
  if (admin.signIn !== undefined && !isLoopback(admin.host) && admin.publicUrl?.startsWith("https:") !== true) {
    problems.push({
      path: ["admin", "publicUrl"],
      message: "must be an https URL: people sign in from other machines, and their cookies must not be readable",
    });
  }
  if (overTcp && admin.port === listen.port && admin.port !== 0) {
    problems.push({ path: ["admin", "port"], message: `is also the port of \`listen\`: ${admin.port}` });
  }
  return problems;
}

/** An inactivity timeout longer than the hard timeout would never apply. */
function timeoutProblems(list: readonly ListedRoute[], { timeouts: general }: Config): readonly ConfigFinding[] {
  const check = (path: Path, limits: Readonly<Record<string, number | undefined>>, hard: number): ConfigFinding[] =>
    Object.entries(limits).flatMap(([name, limit]) =>
      limit === undefined || limit <= hard
        ? []
        : [{ path: [...path, name], message: `is longer than \`hard\`: ${formatDuration(hard)}` }],
    );
  return [
    ...check(["timeouts"], { quick: general.quick, tool: general.tool, human: general.human }, general.hard),
    ...list.flatMap(({ path, written: { timeouts } }) => {
      const { quick, tool, human, tools, hard = general.hard } = timeouts;
      const where = [...path, "timeouts"];
      return [...check(where, { quick, tool, human }, hard), ...check([...where, "tools"], tools, hard)];
    }),
  ];
}

function trustWarnings(list: readonly ListedRoute[]): readonly ConfigFinding[] {
  return list.flatMap(({ path, written: { upstream, upstreams = {} } }) => {
    const own = path[0] === "routes" ? [...path, "upstream"] : path;
    const servers = [
      ...(upstream === undefined ? [] : [{ path: own, server: upstream }]),
      ...Object.entries(upstreams).map(([name, server]) => ({ path: [...path, "upstreams", name], server })),
    ];
    return servers.flatMap(({ path: place, server }) =>
      server.type === "http" && server.tls?.insecure === true
        ? [
            {
              path: [...place, "tls", "insecure"],
              message: "the connection can be read and changed by anyone in between",
            },
          ]
        : [],
    );
  });
}

/**
 * The proxy of the environment for a URL: `HTTP_PROXY` or `HTTPS_PROXY` by scheme, lower case first, unless `NO_PROXY`
 * covers the host. Loopback is never proxied.
 */
export function proxyFromEnvironment(url: URL, env: Environment): string | undefined {
  const name = url.protocol === "https:" ? "https_proxy" : "http_proxy";
  const proxy = variable(name, env);
  if (proxy === undefined || isLoopback(url.hostname)) return undefined;
  const exceptions = (variable("no_proxy", env) ?? "").split(/[\s,]+/u).filter((entry) => entry !== "");
  if (exceptions.some((entry) => covers(entry, url))) return undefined;
  return proxy.includes("://") ? proxy : `http://${proxy}`;
}

function variable(name: string, env: Environment): string | undefined {
  return [env[name], env[name.toUpperCase()]].find((value) => value !== undefined && value !== "");
}

/** Whether an entry of NO_PROXY covers a URL: `*`, or a domain and its subdomains, with an optional port. */
function covers(entry: string, url: URL): boolean {
  if (entry === "*") return true;
  const { host = "", port } = /^(?<host>.*?)(?::(?<port>\d+))?$/u.exec(entry.toLowerCase())?.groups ?? {};
  const urlPort = url.port === "" ? (url.protocol === "https:" ? "443" : "80") : url.port;
  if (port !== undefined && port !== urlPort) return false;
  const domain = host.replace(/^\*?\./u, "");
  return domain !== "" && (url.hostname === domain || url.hostname.endsWith(`.${domain}`));
}
