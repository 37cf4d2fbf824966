import { thrownCode } from "../../lib/thrown-message.ts";
import { lookup } from "node:dns/promises";
import { readFileSync } from "node:fs";
import { connect as connectTcp, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";

import type { Upstream } from "../../config/config.ts";
import { isObject } from "../../lib/is-object.ts";

/** One thing that was looked at. */
export interface Finding {
  readonly outcome: "ok" | "warning" | "failed";
  readonly text: string;
  /** What to do about it. */
  readonly remedy?: string | undefined;
}

type HttpUpstream = Extract<Upstream, { readonly type: "http" }>;

const timeoutMs = 10_000;

/** Looks at the way to an HTTP server step by step: name, connection, certificate. Stops at the first that fails. */
export async function probeNetwork(upstream: HttpUpstream): Promise<readonly Finding[]> {
  const url = new URL(upstream.url);
  const proxy = upstream.proxy === undefined ? null : URL.parse(upstream.proxy);
  const next = proxy ?? url;
  const host = next.hostname.replaceAll(/^\[|\]$/gu, "");
  const port = Number(next.port || (next.protocol === "https:" ? 443 : 80));
  const findings: Finding[] = proxy === null ? [] : [{ outcome: "ok", text: `via the proxy ${next.host}` }];
  const steps = [
    ...(isIP(host) === 0 ? [() => probeName(host)] : []),
    () => probeConnection(host, port),
    ...(next.protocol === "https:" && proxy === null ? [() => probeCertificate(upstream, host, port)] : []),
  ];
  for (const step of steps) {
    const finding = await step();
    findings.push(finding);
    if (finding.outcome === "failed") break;
  }
  return findings;
}

async function probeName(host: string): Promise<Finding> {
  try {
    const addresses = await lookup(host, { all: true });
    return { outcome: "ok", text: `DNS: ${addresses.map(({ address }) => address).join(", ")}` };
  } catch (error) {
    return {
      outcome: "failed",
      text: `DNS: ${host} is not known (${codeOf(error)})`,
      remedy: "check the spelling of the host, the VPN, or set a proxy (`upstream.proxy`, HTTPS_PROXY)",
    };
  }
}

async function probeConnection(host: string, port: number): Promise<Finding> {
  const startedAt = performance.now();
  try {
    await opened(connectTcp({ host, port }), "connect");
    return { outcome: "ok", text: `TCP: connected in ${Math.round(performance.now() - startedAt)} ms` };
  } catch (error) {
    const isRefused = codeOf(error) === "ECONNREFUSED";
    return {
      outcome: "failed",
      text: `TCP: cannot connect to ${host}:${port} (${codeOf(error)})`,
      remedy: isRefused ? "start the server, or correct the port" : "look at the firewall, or set a proxy",
    };
  }
}

async function probeCertificate({ tls }: HttpUpstream, host: string, port: number): Promise<Finding> {
  try {
    const socket = connectTls({
      host,
      port,
      ...(isIP(host) === 0 ? { servername: host } : {}),
      ...(tls?.caFile === undefined ? {} : { ca: readFileSync(tls.caFile) }),
      ...(tls?.certFile === undefined ? {} : { cert: readFileSync(tls.certFile) }),
      ...(tls?.keyFile === undefined ? {} : { key: readFileSync(tls.keyFile) }),
      rejectUnauthorized: tls?.insecure !== true,
    });
    let validTo = "";
    await opened(socket, "secureConnect", () => {
      validTo = socket.getPeerCertificate().valid_to;
    });
    if (tls?.insecure === true)
      return { outcome: "warning", text: "TLS: any certificate is accepted (`tls.insecure`)" };
    return { outcome: "ok", text: `TLS: certificate valid until ${validTo}` };
  } catch (error) {
    return {
      outcome: "failed",
      text: `TLS: ${codeOf(error)}`,
      remedy: "set `upstream.tls.caFile` to the CA certificate of the server, or of the proxy that inspects traffic",
    };
  }
}

async function opened(socket: Socket, event: "connect" | "secureConnect", look?: () => void): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  socket.setTimeout(timeoutMs, () => {
    reject(Object.assign(new Error("timeout"), { code: "ETIMEDOUT" }));
  });
  socket.once("error", reject);
  socket.once(event, () => {
    look?.();
    resolve();
  });
  try {
    await promise;
  } finally {
    socket.destroy();
  }
}

function codeOf(error: unknown): string {
  return thrownCode(error) ?? String(error);
}

/** Where a server that refuses us says that tokens come from (RFC 9728, section 3). */
export async function findAuthorizationServers(url: URL): Promise<readonly string[]> {
  const places = [`/.well-known/oauth-protected-resource${url.pathname}`, "/.well-known/oauth-protected-resource"];
  for (const place of places) {
    try {
      const response = await fetch(new URL(place, url), { signal: AbortSignal.timeout(timeoutMs) });
      const body: unknown = response.ok ? await response.json() : undefined;
      const servers = isObject(body) ? body["authorization_servers"] : undefined;
      if (Array.isArray(servers)) return servers.filter((server) => typeof server === "string");
    } catch {
      // It has none, or not here.
    }
  }
  return [];
}
