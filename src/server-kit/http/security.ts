import { GatewayError } from "../../errors.ts";
import type { KitSettings } from "../settings.ts";

/** Whether anybody can log in at all. */
export interface LoginMethods {
  readonly hasAuthenticator: boolean;
  readonly hasHostLogin: boolean;
}

/** Refuses to start where everybody would have to log in and nobody can (KO-049). */
export function requireLoginMethod(
  settings: KitSettings,
  { hasAuthenticator, hasHostLogin }: LoginMethods,
): void {
  const isHttpOn = settings.enableHttpSseTransport || settings.enableStreamableHttp || settings.enableRest;
  if (!isHttpOn || !settings.requireAuthentication || hasAuthenticator || hasHostLogin) return;
  const why = settings.isAuthenticationExplicit
    ? "requireAuthentication is true"
    : `authentication is required in ${settings.environmentName}`;
  throw new GatewayError(
    "config_invalid",
    `server kit: ${why}, but there is no token verifier and no host login. ` +
      "Give createServerKit an `auth` that verifies tokens or identifies the host's users, " +
      "or set requireAuthentication to false and accept the risk.",
  );
}

/** What an operator should worry about, each with the setting to change (KO-101, KO-108, KO-111). */
export function securityWarnings(settings: KitSettings): readonly string[] {
  const { deployed, environmentName, requireAuthentication, requireHttps, enableCors, allowedOrigins } =
    settings;
  const isHttpOn = settings.enableHttpSseTransport || settings.enableStreamableHttp || settings.enableRest;
  if (!isHttpOn) return [];
  return [
    ...(deployed && !requireAuthentication
      ? [
          `SECURITY WARNING: MCP over HTTP runs without authentication in ${environmentName}. ` +
            "Set requireAuthentication to true, or require it per entity.",
        ]
      : []),
    ...(deployed && !requireHttps
      ? [
          `SECURITY WARNING: MCP over HTTP accepts plain HTTP in ${environmentName}. ` +
            "Remove requireHttps: false, and name your TLS proxy in trustedProxies.",
        ]
      : []),
    ...(enableCors && allowedOrigins.length === 0
      ? [
          "CORS is on but allowedOrigins is empty: no page of another origin can call. List the exact origins.",
        ]
      : []),
    ...(deployed && settings.allowQueryToken === true && !settings.enableRateLimiting
      ? [
          "allowQueryToken is on without rate limits: query tokens are refused. Set enableRateLimiting to true.",
        ]
      : []),
  ];
}
