import type { Exchange, Principal } from "../../exchange.ts";
import type { InspectedMessage } from "../../intercept/subject.ts";
import { messageBytes } from "../../protocol/batch.ts";
import type { HttpRequestFacts, HttpResponseFacts } from "./contract.ts";

/** The header that says which side a message comes from; only on those that servers send to clients. */
const directionHeader = "headgate-direction";

/**
 * The HTTP request that stands for a message: what the message came with where it came over HTTP, and values made up
 * for the rest. Policies written for HTTP see a POST of the message to the path of its route.
 *
 * | field         | over HTTP                        | stdio and in-process        |
 * | ------------- | -------------------------------- | --------------------------- |
 * | `source_ip`   | the client's address             | `127.0.0.1`                 |
 * | `source_port` | `1`                              | `1`                         |
 * | `method`      | `POST`                           | `POST`                      |
 * | `url`         | `publicUrl` and the path asked   | `publicUrl` and `/ROUTE`    |
 * | `headers`     | those that may go on, and ours   | ours                        |
 * | `http_version`| `1.1`                            | `1.1`                       |
 *
 * "Ours" are `host`, `content-type`, `mcp-protocol-version` and `headgate-direction`. The body is the message, byte
 * for byte, and `access_token` what is known of the caller.
 */
export function toRequestFacts({ exchange, message }: InspectedMessage, publicUrl: string): HttpRequestFacts {
  const { transport, route, principal, revision } = exchange;
  const base = new URL(publicUrl);
  const scheme = base.protocol.slice(0, -1);
  const isHttp = transport.type === "http";
  const [path = "", query] = (isHttp ? transport.path : `/${encodeURIComponent(route)}`).split("?", 2);
  return {
    clientAddress: (isHttp ? transport.peer : undefined) ?? "127.0.0.1",
    // PingAuthorize takes ports from 1 on only.
    clientPort: 1,
    method: "POST",
    scheme,
    host: base.hostname,
    port: base.port === "" ? (scheme === "https" ? 443 : 80) : Number(base.port),
    path,
    query,
    headers: {
      ...(isHttp ? transport.headers : {}),
      host: base.host,
      "content-type": "application/json",
      "mcp-protocol-version": revision,
      ...directionOf(exchange),
    },
    body: messageBytes(message),
    httpVersion: "1.1",
    accessToken: toAccessToken(principal),
  };
}

function directionOf({ direction }: Exchange): Readonly<Record<string, string>> {
  return direction === "server-to-client" ? { [directionHeader]: direction } : {};
}

/** The HTTP response that stands for an answer: status 200, for JSON-RPC errors travel in band. */
export function toResponseFacts({ message }: InspectedMessage): HttpResponseFacts {
  return { status: 200, headers: { "content-type": "application/json" }, body: messageBytes(message) };
}

/**
 * What is known of the caller, in the form that PingAuthorize has for tokens that a gateway has verified already. The
 * token itself never leaves the gateway.
 */
export function toAccessToken(principal: Principal): Readonly<Record<string, unknown>> | undefined {
  if (principal.kind === "anonymous") return undefined;
  const { claims, scopes, id } = principal;
  const named = ["client_id", "username", "token_type", "exp", "iat", "nbf", "iss", "jti"].filter(
    (name) => claims[name] !== undefined,
  );
  const { aud, sub } = claims;
  return {
    active: true,
    sub: typeof sub === "string" ? sub : id,
    scope: [...scopes],
    ...(aud === undefined ? {} : { aud: Array.isArray(aud) ? aud : [aud] }),
    ...Object.fromEntries(named.map((name) => [name, claims[name]])),
  };
}
