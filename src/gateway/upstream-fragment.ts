import { createHash } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { RouteConfig } from "../config/config.ts";
import { readPem } from "./pem.ts";

/** Everything that the way to a route's upstream is made of. */
export interface UpstreamIdentity {
  readonly upstream: RouteConfig["upstream"];
  readonly mode: RouteConfig["mode"];
  /** What is fixed in connections over HTTP. */
  readonly http:
    | {
        readonly connectMs: number;
        readonly forwardHeaders: readonly string[];
        /** Certificates and keys count by what is in them: rotating replaces files under the same names. */
        readonly pemDigests: readonly string[];
      }
    | undefined;
}

/** Takes from a route's configuration what its upstream is made of. Throws where a file of it cannot be read. */
export function upstreamIdentityOf({
  upstream,
  mode,
  timeouts,
  forwardHeaders,
}: RouteConfig): UpstreamIdentity {
  if (upstream.type !== "http") return { upstream, mode, http: undefined };
  const { caFile, certFile, keyFile } = upstream.tls ?? {};
  const pemDigests = [caFile, certFile, keyFile].map((file) =>
    file === undefined ? "" : createHash("sha256").update(readPem(file)).digest("hex"),
  );
  return { upstream, mode, http: { connectMs: timeouts.connect, forwardHeaders, pemDigests } };
}

/** Whether connections and processes made for one serve the other just as well. */
export function isSameUpstream(one: UpstreamIdentity, other: UpstreamIdentity): boolean {
  return isDeepStrictEqual(one, other);
}
