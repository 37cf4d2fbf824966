import { isLoopback } from "../lib/addresses.ts";
import type { Environment } from "./substitute.ts";

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
