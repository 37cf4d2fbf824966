import type * as z from "zod";

import type { PolicyConfig } from "../policy/config.ts";
import type { upstreamConfig } from "./routes.ts";
import type { ParsedConfig } from "./schema.ts";
import type { Secrets } from "./secrets.ts";

/** The name of the route that was given none. */
export const unnamedRoute = "default";

/** A configuration that was checked: defaults filled in, durations in milliseconds, routes of all forms together. */
export interface Config extends DeepReadonly<Omit<ParsedConfig, "$schema" | "routes" | "upstream" | "mcpServers">> {
  readonly routes: Readonly<Record<string, RouteConfig>>;
  /** Takes what came from the environment or from files out of texts that are to be shown. */
  readonly secrets: Secrets;
}

/** One server and how it is offered to clients. */
export interface RouteConfig {
  readonly name: string;
  /** What its paths begin with: `/name`, or nothing for the one that is served at `/mcp`. */
  readonly prefixes: readonly string[];
  readonly upstream: Upstream;
  readonly mode: "enforce" | "observe";
  /** Lower-case names of client headers that are passed on. */
  readonly forwardHeaders: readonly string[];
  readonly timeouts: RouteTimeouts;
  readonly rates: Config["rates"];
  readonly cors: Config["cors"];
  readonly auth: RouteAuth;
  /** What callers may do and see; undefined where everything is allowed. */
  readonly policy: RoutePolicy | undefined;
}

/** A policy with its defaults filled in. */
export type RoutePolicy = DeepReadonly<PolicyConfig>;

/** Who may call a route. */
export interface RouteAuth {
  /** Names of authenticators in the order they are asked; none where nobody is asked. */
  readonly use: readonly string[];
  /** Whether callers without credentials are let in. */
  readonly allowsAnonymous: boolean;
  /** Scopes that every caller needs. */
  readonly scopes: readonly string[];
  /** More scopes that clients may ask for. */
  readonly offeredScopes: readonly string[];
}

/** An upstream as the schema reads it. */
export type ParsedUpstream = z.output<typeof upstreamConfig>;

/** A server as it is reached, told apart by `type`. */
export type Upstream = HttpUpstreamConfig | DeepReadonly<Exclude<ParsedUpstream, { readonly type: "http" }>>;

/** A server that is reached over HTTP, with the proxy on the way if there is one. */
export interface HttpUpstreamConfig extends DeepReadonly<
  Omit<Extract<ParsedUpstream, { readonly type: "http" }>, "proxy">
> {
  readonly proxy: string | undefined;
}

/** Every timeout of a route in milliseconds, and those of single tools. */
export type RouteTimeouts = Config["timeouts"] & { readonly tools: Readonly<Record<string, number>> };

/** The same type with everything in it read-only. */
export type DeepReadonly<T> = T extends (...values: never[]) => unknown
  ? T
  : T extends object
    ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> }
    : T;
