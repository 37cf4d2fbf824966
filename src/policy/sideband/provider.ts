import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import type { OnFailOpen } from "../provider/fail-open.ts";
import type { Decision, Explanation, PolicyCall, PolicyProvider, PolicyRefusal } from "../provider/provider.ts";
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
import type { Exchange, Principal } from "../../core/exchange.ts";
import { messageBytes } from "../../protocol/message.ts";

/** What a provider needs from outside, besides what its engine needs. */
export interface SidebandProviderDeps extends Pick<
  SidebandEngineDeps,
  "clock" | "setTimer" | "log" | "telemetry" | "breaker" | "client" | "tls" | "secret" | "userAgent" | "onRetry"
> {
  /** Whether messages pass when nobody could be asked; the engine itself knows which failures that means. */
  readonly failOpen?: boolean;
  /** Told of every message that passed so. */
  readonly onFailOpen?: OnFailOpen;
}

const providerName = "pingauthorize";

/** What the policy gets to see of a message. */
const readByPolicy: readonly string[] = ["message", "principal", "request", "mcp"];

/**
 * PingAuthorize as a provider of the gateway: messages become HTTP requests as `synthetic-http.ts` says, and what the
 * policy makes of their bodies becomes the messages that go on. Changes that only a web server could follow (method,
 * URL, headers that are forwarded) refuse the message, for what the policy asked for cannot be done.
 */
export function createSidebandProvider(config: SidebandConfig, surroundings: SidebandProviderDeps): PolicyProvider {
  const { clock, failOpen = false, onFailOpen } = surroundings;
  const engine = createSidebandEngine(toSidebandSettings(config, failOpen), {
    userAgent: "Headgate",
    ...surroundings,
    plugin: "headgate",
    knownMethods: new Set(),
  });

  const explain = (startedAt: number, notes: readonly string[] = []): Explanation => ({
    provider: providerName,
    rule: undefined,
    read: readByPolicy,
    durationMs: clock.now() - startedAt,
    ...(notes.length === 0 ? {} : { notes }),
  });

  function open(startedAt: number, memory: unknown): Decision {
    const problem = "PingAuthorize could not be asked";
    onFailOpen?.(problem);
    return { effect: "allow", memory, explanation: explain(startedAt, [`the gate was open: ${problem}`]) };
  }

  function deny(startedAt: number, refusal: SidebandRefusal, answer: ClientAnswer): Decision {
    const denial = toPolicyRefusal(refusal, answer);
    return { effect: "deny", refusal: denial, explanation: explain(startedAt, [`status ${refusal.status}`]) };
  }

  /** What the policy wants cannot be done here. */
  function cannot(startedAt: number, what: string): Decision {
    const refusal = { reason: "invalid_answer", status: 502, message: couldNotBeChecked } as const;
    const verdict = deny(startedAt, refusal, { status: 502, headers: {}, body: Buffer.alloc(0) });
    return {
      ...verdict,
      explanation: explain(startedAt, [`the policy asks for what cannot be done: ${what}`]),
    };
  }

  async function evaluateRequest(subject: InspectedMessage, { signal }: PolicyCall): Promise<Decision> {
    const startedAt = clock.now();
    const outcome = await engine.evaluateRequest(toRequestFacts(subject, config.publicUrl), { signal });
    if (outcome.action === "answer") return deny(startedAt, outcome.refusal, outcome.answer);
    if (outcome.decision === "fail-open") return open(startedAt, outcome.store);
    const impossible = outcome.changes.find((change) => !isPossible(change, subject));
    if (impossible !== undefined) return cannot(startedAt, impossible.type);
    const body = outcome.changes.find((change) => change.type === "set-body")?.body;
    return {
      effect: "allow",
      ...(body === undefined ? {} : { change: { bytes: body } }),
      memory: outcome.store,
      explanation: explain(startedAt),
    };
  }

  async function evaluateResponse(subject: InspectedMessage, { signal, memory }: PolicyCall): Promise<Decision> {
    const startedAt = clock.now();
    if (!isStored(memory)) {
      // Nothing was asked about the request, so a policy cannot know what this answers (PA-217).
      const refusal = { reason: "internal", status: 500, message: couldNotBeChecked } as const;
      return deny(startedAt, refusal, { status: 500, headers: {}, body: Buffer.alloc(0) });
    }
    const outcome = await engine.evaluateResponse(toResponseFacts(subject), memory, { signal });
    if (outcome.action === "pass") return open(startedAt, undefined);
    const { answer, refusal } = outcome;
    if (refusal !== undefined) return deny(startedAt, refusal, answer);
    if (answer.status < 200 || answer.status > 299) return cannot(startedAt, `status ${answer.status}`);
    if (outcome.isOriginalBody) return { effect: "allow", explanation: explain(startedAt) };
    if (answer.body.length === 0) return cannot(startedAt, "an empty answer");
    return { effect: "allow", change: { bytes: answer.body }, explanation: explain(startedAt) };
  }

  return {
    name: providerName,
    evaluateRequest,
    evaluateResponse: engine.hasResponsePhase
      ? evaluateResponse
      : () => ({ effect: "allow", explanation: explain(clock.now(), ["the response phase is off"]) }),
    close: () => engine.close(),
  };
}

const couldNotBeChecked = "the decision about this could not be carried out, so it is refused";

/** Bodies can be changed; a header that goes nowhere can be taken off, for nobody will see it. */
function isPossible(change: RequestChange, { exchange: { transport } }: InspectedMessage): boolean {
  if (change.type === "set-body") return true;
  const forwarded = transport.type === "http" ? transport.headers : {};
  return change.type === "clear-header" && !Object.hasOwn(forwarded, change.name);
}

function isStored(memory: unknown): memory is StoredContext {
  // Only this provider's own verdicts leave a memory for it.
  return typeof memory === "object" && memory !== null && "paz_original_request" in memory;
}

/**
 * What kind of no a refusal is. A decision point that refuses us, or whose answer cannot be followed, is no lack of a
 * decision: that must stay shut where the gate is open for lack of one (PA-126, PA-208, PA-209).
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
  const { code, ...facts } = refusalKinds[refusal.reason];
  return {
    ...(refusal.isUndecided === true ? { kind: "unavailable" } : facts),
    code,
    reason: refusal.message,
    ...(refusal.retryAfter === undefined ? {} : { retryAfter: refusal.retryAfter }),
    http: { status, headers, body: body.toString("utf8") },
  };
}

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
function toRequestFacts({ exchange, message }: InspectedMessage, publicUrl: string): HttpRequestFacts {
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
function toResponseFacts({ message }: InspectedMessage): HttpResponseFacts {
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
