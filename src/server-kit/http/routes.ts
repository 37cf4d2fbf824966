import { metadataPrefix } from "../../auth/resource-server.ts";
import type { KitSettings } from "../settings/settings.ts";

/** The kinds of routes. */
export type RouteKind = "sse" | "rpc" | "capabilities" | "health" | "streamable" | "rest" | "metadata";

/** A route of the kit. */
export interface KitRoute {
  readonly kind: RouteKind;
  /** The path after the REST route; empty for other kinds. */
  readonly rest: string;
}

/** The methods of each route. */
export const routeMethods = {
  sse: ["GET"],
  rpc: ["POST"],
  capabilities: ["GET"],
  health: ["GET", "HEAD"],
  streamable: ["GET", "POST", "DELETE"],
  rest: ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"],
  metadata: ["GET"],
} as const satisfies Record<RouteKind, readonly string[]>;

/** The `Allow` header of a route. */
export function allowHeader(kind: RouteKind): string {
  return [...routeMethods[kind], "OPTIONS"].join(", ");
}

/** The route of a path; undefined if it is not the kit's or is disabled (KO-030). */
export function findRoute(path: string, settings: KitSettings): KitRoute | undefined {
  const { httpSseRoute: base, restRoute, enableHttpSseTransport, enableStreamableHttp, enableRest } = settings;
  const isOn = enableHttpSseTransport || enableStreamableHttp;
  if (isOn && (path === metadataPrefix || path === metadataPrefix + base)) return { kind: "metadata", rest: "" };
  if (path === base || path === `${base}/`) {
    return enableStreamableHttp ? { kind: "streamable", rest: "" } : undefined;
  }
  if (path.startsWith(`${base}/`)) return sseProfileRoute(path.slice(base.length + 1), settings, isOn);
  if (enableRest && (path === restRoute || path.startsWith(`${restRoute}/`))) {
    return { kind: "rest", rest: path.slice(restRoute.length) };
  }
  return undefined;
}

function sseProfileRoute(name: string, settings: KitSettings, isOn: boolean): KitRoute | undefined {
  if (name === "health") return isOn ? { kind: "health", rest: "" } : undefined;
  if (!settings.enableHttpSseTransport) return undefined;
  if (name === "sse" || name === "rpc") return { kind: name, rest: "" };
  return name === "capabilities" && settings.publishCapabilityEndpoint ? { kind: name, rest: "" } : undefined;
}
