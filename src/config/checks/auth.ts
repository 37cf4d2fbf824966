import { anonymousName } from "../../auth/config.ts";
import { isLoopback } from "../../lib/addresses.ts";
import { type Config, type RouteAuth, type RouteConfig, serversOf, type ServerUpstream } from "../config.ts";
import type { ConfigFinding, Path } from "../issues.ts";
import type { ParsedConfig } from "../schema.ts";
import { closestName } from "../../lib/closest-name.ts";

type ParsedAuthRoute = ParsedConfig["routes"][string];

/** The authentication of a route: its own settings, or else the general ones. */
export function resolveRouteAuth(general: ParsedConfig["auth"], own: ParsedAuthRoute["auth"]): RouteAuth {
  const names = own.use ?? general.use ?? Object.keys(general.authenticators);
  const use = names.filter((name) => name !== anonymousName);
  return {
    use,
    allowsAnonymous: use.length === 0 || use.length < names.length,
    scopes: own.scopes ?? general.scopes,
    offeredScopes: own.offeredScopes ?? general.offeredScopes,
  };
}

/** A route and its path in the configuration. */
export interface PlacedRoute {
  readonly path: Path;
  readonly route: RouteConfig;
  readonly written: Pick<ParsedAuthRoute, "auth" | "policy">;
}

/** Contradictions in the authentication settings. */
export function authProblems(
  config: Pick<Config, "listen" | "auth">,
  routes: readonly PlacedRoute[],
): readonly ConfigFinding[] {
  const { listen, auth } = config;
  const known = Object.keys(auth.authenticators);
  const exposure = exposureProblem(
    listen,
    routes.map(({ route }) => route),
  );
  const names = (path: Path, use: readonly string[] | undefined): ConfigFinding[] =>
    (use ?? []).flatMap((name, index) => {
      if (name === anonymousName || known.includes(name)) return [];
      const meant = closestName(name, [...known, anonymousName]);
      const hint = meant === undefined ? "" : `; did you mean \`${meant}\`?`;
      return [{ path: [...path, index], message: `unknown authenticator \`${name}\`${hint}` }];
    });
  return [
    ...names(["auth", "use"], auth.use),
    ...certificateProblems(listen, auth),
    ...routes.flatMap(({ path, route, written }) => [
      ...names([...path, "auth", "use"], written.auth.use),
      ...routeProblems(path, route, config),
    ]),
    ...(exposure === undefined ? [] : [{ path: ["listen", "host"], message: exposure }]),
  ];
}

function routeProblems(
  path: Path,
  route: RouteConfig,
  { listen, auth }: Pick<Config, "listen" | "auth">,
): ConfigFinding[] {
  const { use, scopes, allowsAnonymous } = route.auth;
  const used = use.flatMap((name) => auth.authenticators[name] ?? []);
  const problems: ConfigFinding[] = [];
  // A server outside `routes` is itself the upstream and uses the general settings.
  const isRoute = path[0] === "routes";
  const authPath = isRoute ? [...path, "auth"] : ["auth"];
  const upstreamPath = isRoute ? [...path, "upstream"] : path;
  const isNamed = listen.publicUrl !== undefined || (listen.unixSocket === undefined && isLoopback(listen.host));
  if (!isNamed && used.some(({ jwt, introspection }) => needsPublicUrl(jwt) || needsPublicUrl(introspection))) {
    problems.push({
      path: authPath,
      message:
        "tokens are checked against the URL of the endpoint: set `listen.publicUrl` or the `audience` of the authenticator",
    });
  }
  if (use.length > 0) {
    const carriers = new Set(["authorization", ...used.flatMap(({ apiKeys }) => apiKeys?.header ?? [])]);
    for (const [index, name] of route.forwardHeaders.entries()) {
      if (!carriers.has(name)) continue;
      problems.push({
        path: [...path, "forwardHeaders", index],
        message: `\`${name}\` carries the caller's credentials for the gateway, which are never forwarded; see \`upstream.credentials\``,
      });
    }
  }
  if (allowsAnonymous && scopes.length > 0) {
    problems.push({
      path: authPath,
      message: `callers without credentials have no scopes, so \`${anonymousName}\` and \`scopes\` cannot be combined`,
    });
  }
  const hasToken = used.some(({ jwt, introspection }) => (jwt ?? introspection) !== undefined);
  for (const { name, server } of serversOf(route.upstream)) {
    const place = name === undefined ? upstreamPath : [...path, "upstreams", name];
    problems.push(...credentialProblems(place, server, route.mode, hasToken));
  }
  return problems;
}

function credentialProblems(
  path: Path,
  server: ServerUpstream,
  mode: RouteConfig["mode"],
  hasToken: boolean,
): readonly ConfigFinding[] {
  if (server.type !== "http" || server.credentials === undefined) return [];
  const problems: ConfigFinding[] = [];
  const { header, tokenExchange } = server.credentials;
  if (mode === "observe") {
    problems.push({
      path: [...path, "credentials"],
      message: "`observe` passes everything through unchanged; put the secret of the upstream in `headers`",
    });
  }
  if (Object.hasOwn(server.headers, header?.name ?? "authorization")) {
    problems.push({
      path: [...path, "headers"],
      message: `\`credentials\` sets \`${header?.name ?? "authorization"}\` too; keep one of the two`,
    });
  }
  if (tokenExchange !== undefined && !hasToken) {
    problems.push({
      path: [...path, "credentials", "tokenExchange"],
      message: "callers of this route have no token: it has no `jwt` or `introspection` authenticator",
    });
  }
  return problems;
}

function needsPublicUrl(tokens: { readonly audience?: unknown } | undefined): boolean {
  return tokens !== undefined && tokens.audience === undefined;
}

function certificateProblems({ tls }: Config["listen"], { authenticators }: Config["auth"]): ConfigFinding[] {
  if (tls?.caFile !== undefined) return [];
  return Object.entries(authenticators).flatMap(([name, { certificate }]) =>
    certificate === undefined
      ? []
      : [
          {
            path: ["auth", "authenticators", name, "certificate"],
            message: "needs `listen.tls.caFile`: the CA certificates for client certificates",
          },
        ],
  );
}

/** Why a configuration would admit everybody by mistake: on a non-loopback address that must be stated. Undefined if it would not. */
export function exposureProblem(listen: Config["listen"], routes: readonly RouteConfig[]): string | undefined {
  if (listen.unixSocket !== undefined || isLoopback(listen.host) || listen.allowAnonymous) return undefined;
  const open = routes.filter(({ auth }) => auth.allowsAnonymous).map(({ name }) => `\`${name}\``);
  if (open.length === 0) return undefined;
  return `not a loopback address, and unauthenticated callers are admitted (${open.join(", ")}); set \`auth\`, or \`listen.allowAnonymous: true\` (--allow-anonymous) to allow that`;
}

/** Settings that work but are probably a mistake. */
export function authWarnings(
  { listen }: Pick<Config, "listen">,
  routes: readonly PlacedRoute[],
): readonly ConfigFinding[] {
  const isLocal = listen.unixSocket !== undefined || isLoopback(listen.host);
  const isSecure = listen.tls !== undefined || listen.publicUrl?.startsWith("https:") === true;
  const asks = routes.some(({ route }) => route.auth.use.length > 0);
  return !isLocal && !isSecure && asks
    ? [
        {
          path: ["listen"],
          message: "credentials are sent unencrypted; set `tls` or an https `publicUrl`",
        },
      ]
    : [];
}
