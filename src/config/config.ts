import type * as z from "zod";

import type { PolicyConfig } from "../policy/config.ts";
import type { ValidationSettings } from "../protocol/validation/validate.ts";
import type { resolveLimits } from "./limits.ts";
import type { federationConfig, overridesConfig, viewConfig } from "./federation.ts";
import type { InterceptorConfig } from "./interceptors.ts";
import type { upstreamConfig } from "./routes.ts";
import type { ParsedConfig } from "./schema.ts";
import type { Secrets } from "./secrets.ts";

/** The name of a route without a name. */
export const unnamedRoute = "default";

/** A validated configuration with defaults; durations are milliseconds, and `routes` contains all servers. */
export interface Config extends DeepReadonly<
  Omit<ParsedConfig, "$schema" | "routes" | "upstream" | "mcpServers" | "federate" | "interceptors" | "limits">
> {
  readonly limits: DeepReadonly<ReturnType<typeof resolveLimits>>;
  readonly routes: Readonly<Record<string, RouteConfig>>;
  /** Those of all routes, and those of single ones. */
  readonly interceptors: readonly InterceptorConfig[];
  /** Masks values from the environment and from files. */
  readonly secrets: Secrets;
}

/** A server and how it is offered to clients. */
export interface RouteConfig {
  readonly name: string;
  /** Prefixes of its paths: `/name`, and empty if it is served at `/mcp`. */
  readonly prefixes: readonly string[];
  readonly upstream: Upstream;
  readonly mode: "enforce" | "observe";
  /** How thoroughly messages are checked. */
  readonly validation: ValidationSettings;
  /** Lower-case names of the client headers to forward. */
  readonly forwardHeaders: readonly string[];
  readonly timeouts: RouteTimeouts;
  readonly rates: Config["rates"];
  readonly cors: Config["cors"];
  readonly auth: RouteAuth;
  /** What callers may do and see; undefined allows everything. */
  readonly policy: RoutePolicy | undefined;
}

/** A policy with its defaults. */
export type RoutePolicy = DeepReadonly<PolicyConfig>;

/** Who may call a route. */
export interface RouteAuth {
  /** Names of the authenticators, in order; empty without authentication. */
  readonly use: readonly string[];
  /** Whether callers without credentials are admitted. */
  readonly allowsAnonymous: boolean;
  /** Scopes required of every caller. */
  readonly scopes: readonly string[];
  /** Further scopes that clients may request. */
  readonly offeredScopes: readonly string[];
}

/** An upstream as the schema reads it. */
export type ParsedUpstream = z.output<typeof upstreamConfig>;

/** A server, discriminated by `type`. */
export type ServerUpstream = HttpUpstreamConfig | DeepReadonly<Exclude<ParsedUpstream, { readonly type: "http" }>>;

/** What is behind a route: a server, or several as one. */
export type Upstream = ServerUpstream | FederationConfig;

/** Several servers behind one endpoint. */
export interface FederationConfig extends DeepReadonly<z.output<typeof federationConfig>> {
  readonly type: "federation";
  /** In the order of lists. */
  readonly members: readonly MemberConfig[];
  readonly overrides: DeepReadonly<z.output<typeof overridesConfig>>;
  /** Parts of it that callers get under a condition, in order. */
  readonly views: readonly ViewConfig[];
  /** The part of it that this route is for; undefined for all of it. */
  readonly view: ViewConfig | undefined;
}

/** A part of what a federation offers. */
export interface ViewConfig extends DeepReadonly<z.output<typeof viewConfig>> {
  readonly name: string;
}

/** A server of a federation. */
export interface MemberConfig {
  readonly name: string;
  /** Empty for bare names. */
  readonly prefix: string;
  readonly title: string;
  /** Patterns of the tools that are offered; undefined for all. */
  readonly allowedTools: readonly string[] | undefined;
  /** Whether the URIs of its resources get its prefix. */
  readonly uris: "keep" | "prefix";
  readonly required: boolean;
  readonly upstream: ServerUpstream;
}

/** The servers behind a route, by name where there are several. */
export function serversOf(
  upstream: Upstream,
): readonly { readonly name: string | undefined; readonly server: ServerUpstream }[] {
  if (upstream.type !== "federation") return [{ name: undefined, server: upstream }];
  return upstream.members.map(({ name, upstream: server }) => ({ name, server }));
}

/** A server over HTTP, with its proxy if there is one. */
export interface HttpUpstreamConfig extends DeepReadonly<
  Omit<Extract<ParsedUpstream, { readonly type: "http" }>, "proxy">
> {
  readonly proxy: string | undefined;
}

/** All timeouts of a route in milliseconds. */
export type RouteTimeouts = Omit<Config["timeouts"], "body"> & { readonly tools: Readonly<Record<string, number>> };

/** The same type, deeply read-only. */
export type DeepReadonly<T> = T extends (...values: never[]) => unknown
  ? T
  : T extends object
    ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> }
    : T;
