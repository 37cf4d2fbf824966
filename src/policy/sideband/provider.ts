import { httpFactsOf, type Principal, type UpstreamTarget } from "../../core/exchange.ts";
import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { messageBytes } from "../../protocol/message.ts";
import type { OnFailOpen } from "../provider/fail-open.ts";
import {
  type Decision,
  explain,
  type Explanation,
  type PolicyCall,
  type PolicyProvider,
  type PolicyRefusal,
} from "../provider/provider.ts";
import { type SidebandConfig, toSidebandSettings } from "./config.ts";
import type {
  ClientAnswer,
  HttpRequestFacts,
  HttpResponseFacts,
  RequestChange,
  SidebandEngineDeps,
  SidebandRefusal,
  SidebandRefusalReason,
  StoredContext,
} from "./contract.ts";
import { createSidebandEngine } from "./engine.ts";

/** What the provider needs of the gateway. */
export interface SidebandProviderDeps extends Pick<
  SidebandEngineDeps,
  "clock" | "setTimer" | "log" | "telemetry" | "breaker" | "client" | "tls" | "secret" | "userAgent" | "onRetry"
> {
  /** The engine itself knows which failures may fail open. */
  readonly failOpen?: boolean;
  readonly onFailOpen?: OnFailOpen;
}

const name = "pingauthorize";

/** What is sent to the policy. */
const read: readonly string[] = ["message", "principal", "request", "mcp"];

/**
 * Creates the provider for PingAuthorize. Messages become synthetic HTTP requests, and the bodies that the policy returns
 * become the messages that are forwarded. Changes that only an HTTP proxy could carry out (method, URL, forwarded headers) refuse
 * the message.
 */
export function createSidebandProvider(config: SidebandConfig, deps: SidebandProviderDeps): PolicyProvider {
  const { clock, failOpen = false, onFailOpen } = deps;
  const engine = createSidebandEngine(toSidebandSettings(config, failOpen), {
    userAgent: "Headgate",
    ...deps,
    plugin: "headgate",
    knownMethods: new Set(),
  });

  const explained = (startedAt: number, ...notes: string[]): Explanation =>
    explain(name, notes, clock.now() - startedAt, read);

  function allowUndecided({ exchange }: InspectedMessage, startedAt: number, memory: unknown): Decision {
    const problem = "PingAuthorize is unavailable";
    onFailOpen?.(problem, exchange);
    return { effect: "allow", memory, explanation: explained(startedAt, `failed open: ${problem}`) };
  }

  function deny(startedAt: number, refusal: SidebandRefusal, answer: ClientAnswer, note?: string): Decision {
    return {
      effect: "deny",
      refusal: toPolicyRefusal(refusal, answer),
      explanation: explained(startedAt, note ?? `status ${refusal.status}`),
    };
  }

  /** Refuses a decision that cannot be carried out here. */
  function refuseImpossible(startedAt: number, what: string): Decision {
    const refusal = { reason: "invalid_answer", status: 502, message: notCarriedOut } as const;
    return deny(
      startedAt,
      refusal,
      emptyAnswer(502),
      `the policy asks for something that the gateway cannot do: ${what}`,
    );
  }

  async function evaluateRequest(subject: InspectedMessage, { signal }: PolicyCall): Promise<Decision> {
    const startedAt = clock.now();
    const outcome = await engine.evaluateRequest(toRequestFacts(subject, config.publicUrl), { signal });
    if (outcome.action === "answer") return deny(startedAt, outcome.refusal, outcome.answer);
    if (outcome.decision === "fail-open") return allowUndecided(subject, startedAt, outcome.store);
    const impossible = outcome.changes.find((change) => !isPossible(change, subject));
    if (impossible !== undefined) return refuseImpossible(startedAt, impossible.type);
    const body = outcome.changes.find((change) => change.type === "set-body")?.body;
    return {
      effect: "allow",
      ...(body === undefined ? {} : { change: { bytes: body } }),
      memory: outcome.store,
      explanation: explained(startedAt),
    };
  }

  async function evaluateResponse(subject: InspectedMessage, { signal, memory }: PolicyCall): Promise<Decision> {
    const startedAt = clock.now();
    if (!isStored(memory)) {
      // Without the request the policy cannot know what this answers (PA-217).
      const refusal = { reason: "internal", status: 500, message: notCarriedOut } as const;
      return deny(startedAt, refusal, emptyAnswer(500));
    }
    const outcome = await engine.evaluateResponse(toResponseFacts(subject), memory, { signal });
    if (outcome.action === "pass") return allowUndecided(subject, startedAt, undefined);
    const { answer, refusal } = outcome;
    if (refusal !== undefined) return deny(startedAt, refusal, answer);
    if (answer.status < 200 || answer.status > 299) return refuseImpossible(startedAt, `status ${answer.status}`);
    if (outcome.isOriginalBody) return { effect: "allow", explanation: explained(startedAt) };
    if (answer.body.length === 0) return refuseImpossible(startedAt, "an empty response");
    return { effect: "allow", change: { bytes: answer.body }, explanation: explained(startedAt) };
  }

  return {
    name,
    evaluateRequest,
    evaluateResponse: engine.hasResponsePhase
      ? evaluateResponse
      : () => ({ effect: "allow", explanation: explain(name, ["the response phase is off"], 0, read) }),
    // The decision point gets the request that was stored with the decision about it.
    argumentsForResponses: [],
    close: () => engine.close(),
  };
}

const notCarriedOut = "The authorization decision could not be carried out; request denied.";

function emptyAnswer(status: number): ClientAnswer {
  return { status, headers: {}, body: Buffer.alloc(0) };
}

/** Bodies can be changed, and headers removed that are not forwarded anyway. */
function isPossible(change: RequestChange, { exchange: { transport } }: InspectedMessage): boolean {
  if (change.type === "set-body") return true;
  const forwarded = httpFactsOf(transport)?.headers ?? {};
  return change.type === "clear-header" && !Object.hasOwn(forwarded, change.name);
}

function isStored(memory: unknown): memory is StoredContext {
  return typeof memory === "object" && memory !== null && "paz_original_request" in memory;
}

/**
 * A PingAuthorize that rejects us, or whose answer is unusable, has not failed to decide, so it never fails open (PA-126,
 * PA-208, PA-209).
 */
const refusalKinds: Readonly<Record<SidebandRefusalReason, Pick<PolicyRefusal, "kind" | "code" | "neverFailOpen">>> = {
  policy: { kind: "forbidden", code: "denied_by_policy" },
  unavailable: { kind: "unavailable", code: "decision_point_unavailable" },
  rate_limited: { kind: "rate", code: "decision_point_rate_limited" },
  passthrough: { kind: "forbidden", code: "decision_point_refused" },
  rejected: { kind: "unavailable", code: "decision_point_rejected", neverFailOpen: true },
  invalid_answer: { kind: "unavailable", code: "decision_not_usable", neverFailOpen: true },
  too_large: { kind: "invalid", code: "too_large_to_decide" },
  bad_request: { kind: "invalid", code: "not_decidable" },
  internal: { kind: "unavailable", code: "decision_failed", neverFailOpen: true },
};

function toPolicyRefusal(refusal: SidebandRefusal, { status, headers, body }: ClientAnswer): PolicyRefusal {
  const { code, ...kind } = refusalKinds[refusal.reason];
  return {
    ...(refusal.isUndecided === true ? { kind: "unavailable" } : kind),
    code,
    reason: refusal.message,
    ...(refusal.retryAfter === undefined ? {} : { retryAfter: refusal.retryAfter }),
    http: { status, headers, body: body.toString("utf8") },
  };
}

/**
 * The synthetic HTTP request of a message. A policy for HTTP sees a POST of the message to the path of its route.
 *
 * | field         | over HTTP                        | stdio and in-process     |
 * | ------------- | -------------------------------- | ------------------------ |
 * | `source_ip`   | the client's address             | `127.0.0.1`              |
 * | `source_port` | `1`                              | `1`                      |
 * | `method`      | `POST`                           | `POST`                   |
 * | `url`         | `publicUrl` and the request path | `publicUrl` and `/ROUTE` |
 * | `headers`     | the forwarded ones and ours      | ours                     |
 * | `http_version`| `1.1`                            | `1.1`                    |
 *
 * Ours are `host`, `content-type`, `mcp-protocol-version`, on messages from the server `headgate-direction`, and, where
 * several servers are behind the route, `headgate-upstream` and `headgate-name`: the server and its own name for the target. The
 * body is the message, byte for byte, and `access_token` the caller.
 */
function toRequestFacts({ exchange, message }: InspectedMessage, publicUrl: string): HttpRequestFacts {
  const { transport, route, principal, revision, direction, tracking } = exchange;
  const base = new URL(publicUrl);
  const scheme = base.protocol.slice(0, -1);
  const http = httpFactsOf(transport);
  const [path = "", query] = (http?.path ?? `/${encodeURIComponent(route)}`).split("?", 2);
  return {
    clientAddress: http?.peer ?? "127.0.0.1",
    // PingAuthorize does not accept port 0.
    clientPort: 1,
    method: "POST",
    scheme,
    host: base.hostname,
    port: base.port === "" ? (scheme === "https" ? 443 : 80) : Number(base.port),
    path,
    query,
    headers: {
      ...withoutOurs(http?.headers),
      host: base.host,
      "content-type": "application/json",
      "mcp-protocol-version": revision,
      ...(direction === "server-to-client" ? { "headgate-direction": direction } : {}),
      ...(tracking.upstream === undefined ? {} : upstreamHeaders(tracking.upstream)),
    },
    body: messageBytes(message),
    httpVersion: "1.1",
    accessToken: toAccessToken(principal),
  };
}

/** Clients must not send headers of ours. */
function withoutOurs(headers: Readonly<Record<string, string>> = {}): Readonly<Record<string, string>> {
  return Object.fromEntries(Object.entries(headers).filter(([header]) => !header.startsWith("headgate-")));
}

/** Encoded as in a URL, because names may have any characters. */
function upstreamHeaders({ member, name: own }: UpstreamTarget): Readonly<Record<string, string>> {
  return { "headgate-upstream": member, ...(own === "" ? {} : { "headgate-name": encodeURIComponent(own) }) };
}

/** The synthetic HTTP response of a message: status 200, for JSON-RPC errors are in band. */
function toResponseFacts({ message }: InspectedMessage): HttpResponseFacts {
  return { status: 200, headers: { "content-type": "application/json" }, body: messageBytes(message) };
}

/** The caller in PingAuthorize's form for verified tokens. The token itself never leaves the gateway. */
export function toAccessToken(principal: Principal): Readonly<Record<string, unknown>> | undefined {
  if (principal.kind === "anonymous") return undefined;
  const { claims, scopes, id } = principal;
  const { aud, sub } = claims;
  const copied = ["client_id", "username", "token_type", "exp", "iat", "nbf", "iss", "jti"].filter(
    (claim) => claims[claim] !== undefined,
  );
  return {
    active: true,
    sub: typeof sub === "string" ? sub : id,
    scope: [...scopes],
    ...(aud === undefined ? {} : { aud: Array.isArray(aud) ? aud : [aud] }),
    ...Object.fromEntries(copied.map((claim) => [claim, claims[claim]])),
  };
}
