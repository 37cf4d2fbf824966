import type { Breaker, OpenBreaker } from "../pdp/breaker.ts";
import { retryAfterSeconds, withRetry } from "../pdp/retry.ts";
import type { BreakerKind, EngineCall, EnginePhase, PdpClient, PdpReply, SidebandEngineDeps } from "./contract.ts";
import type { Instruments } from "./metrics.ts";
import { abortError } from "../pdp/client.ts";
import { endpointPathOf, type ServiceUrl } from "../pdp/service-url.ts";
import type { SidebandSettings } from "./settings.ts";

/** How a question ended. */
export type PdpOutcome<Answer> =
  /** A 2xx answer, read. */
  | { readonly kind: "answer"; readonly reply: PdpReply; readonly answer: Answer }
  /** Any other status; `tripped` when it opened the breaker. */
  | {
      readonly kind: "reply";
      readonly reply: PdpReply;
      readonly tripped: OpenBreaker<BreakerKind> | undefined;
    }
  /** No answer. */
  | { readonly kind: "failed"; readonly error: string }
  /** Not asked: the breaker is open. */
  | { readonly kind: "open"; readonly open: OpenBreaker<BreakerKind> };

/** One question. */
export interface SidebandQuery<Answer> {
  readonly phase: EnginePhase;
  readonly body: Buffer;
  /** The MCP method that the question is about; undefined for other traffic (PA-212). */
  readonly mcpMethod: string | undefined;
  readonly call: EngineCall;
  /** Reads the body of a 2xx answer, and says what it means for metrics and spans. */
  readonly read: (body: Buffer) => { readonly answer: Answer; readonly decision: "allow" | "deny" | "error" };
}

/** Puts a question; rejects only when the question's signal was aborted. */
export type QuerySideband = <Answer>(question: SidebandQuery<Answer>) => Promise<PdpOutcome<Answer>>;

/** What asking needs. */
export interface QuerySidebandDeps {
  readonly settings: SidebandSettings;
  readonly service: ServiceUrl;
  readonly client: PdpClient;
  readonly breaker: Breaker<BreakerKind>;
  readonly instruments: Instruments;
  readonly deps: Pick<SidebandEngineDeps, "clock" | "setTimer" | "secret" | "onRetry">;
  readonly userAgent: string;
}

type Attempt = { readonly reply: PdpReply } | { readonly error: string };

/** How long the breaker stays open when the decision point does not say (PA-109, PA-110). */
const failureSeconds = 30;

/** Makes the function that puts questions: breaker, retries and telemetry around the HTTP client. */
export function createSidebandQuery(options: QuerySidebandDeps): QuerySideband {
  const { settings, service, client, breaker, instruments, deps: surroundings } = options;
  const { clock, setTimer } = surroundings;

  async function headersFor(body: Buffer): Promise<Readonly<Record<string, string>>> {
    const secret = (await surroundings.secret?.()) ?? settings.shared_secret;
    return {
      Host: `${service.host}:${service.port}`,
      Connection: "Keep-Alive",
      "Content-Type": "application/json",
      "User-Agent": options.userAgent,
      "Content-Length": String(body.length),
      [settings.secret_header_name]: secret,
    };
  }

  /** Methods that are not listed get one attempt, in both phases (PA-184). */
  function retriesFor(mcpMethod: string | undefined): number {
    const mayRetry = mcpMethod === undefined || settings.mcp_retry_methods.some((method) => method === mcpMethod);
    return mayRetry ? settings.max_retries : 0;
  }

  async function attempts(question: SidebandQuery<unknown>): Promise<Attempt> {
    const { phase, body, mcpMethod, call } = question;
    const deadline = clock.now() + (call.budgetMs ?? Number.POSITIVE_INFINITY);
    const path = endpointPathOf(service, phase === "access" ? "request" : "response");
    const headers = await headersFor(body);
    return withRetry(
      async (): Promise<Attempt> => {
        const timeoutMs = Math.min(settings.connection_timeout_ms, deadline - clock.now());
        if (timeoutMs <= 0) return { error: "no time left for an attempt" };
        try {
          return { reply: await client.post({ path, headers, body, timeoutMs, signal: call.signal }) };
        } catch (error) {
          return { error: textOf(error) };
        }
      },
      {
        retries: retriesFor(mcpMethod),
        pauseMs: settings.retry_backoff_ms,
        setTimer,
        signal: call.signal,
        isTransient: (attempt) => !("reply" in attempt) || attempt.reply.status >= 500,
        onRetry: surroundings.onRetry,
        hasTime: () => clock.now() + settings.retry_backoff_ms < deadline,
      },
    );
  }

  /** Only what is final opens the breaker (PA-121). */
  function trip(attempt: Attempt): OpenBreaker<BreakerKind> | undefined {
    if (!settings.circuit_breaker_enabled) return undefined;
    if (!("reply" in attempt) || attempt.reply.status >= 500) return breaker.trip("failure", failureSeconds);
    const { status, headers } = attempt.reply;
    return status === 429
      ? breaker.trip("rate", retryAfterSeconds(headers["retry-after"], clock.wall(), failureSeconds))
      : undefined;
  }

  return async (question) => {
    const { phase } = question;
    const open = settings.circuit_breaker_enabled ? breaker.check() : undefined;
    instruments.breakerState(open !== undefined);
    if (open !== undefined) return { kind: "open", open };
    const span = instruments.startSpan(phase);
    const startedAt = clock.now();
    const attempt = await attempts(question);
    const { signal } = question.call;
    // Somebody's patience is over: that is a timeout like any other. Somebody has gone: that says nothing about the peer.
    if (signal?.aborted === true && !isTimeout(signal.reason)) throw abortError(signal);
    const tripped = trip(attempt);
    if (tripped !== undefined) instruments.breakerState(true);
    const reply = "reply" in attempt ? attempt.reply : undefined;
    const isAnswer = reply !== undefined && reply.status >= 200 && reply.status < 300;
    const reading = isAnswer ? question.read(reply.body) : undefined;
    const result = reading?.decision ?? "error";
    instruments.called(phase, result, clock.now() - startedAt);
    if (result !== "error") instruments.decided(result);
    span?.end({
      attributes: {
        "http.method": "POST",
        "http.url": `${service.shown}/sideband/${phase === "access" ? "request" : "response"}`,
        ...(reply === undefined ? {} : { "http.status_code": reply.status }),
        ...(result === "error" ? {} : { "policy.decision": result }),
        "circuit_breaker.state": tripped === undefined ? "closed" : "open",
      },
      ...(result === "error" ? { error: "error" in attempt ? attempt.error : describe(attempt.reply) } : {}),
    });
    if (!("reply" in attempt)) return { kind: "failed", error: attempt.error };
    return reading === undefined
      ? { kind: "reply", reply: attempt.reply, tripped }
      : { kind: "answer", reply: attempt.reply, answer: reading.answer };
  };
}

function isTimeout(reason: unknown): boolean {
  return reason === "timeout" || (reason instanceof Error && reason.name === "TimeoutError");
}

function describe({ status }: PdpReply): string {
  return status >= 200 && status < 300 ? "the answer is not valid" : `status ${status}`;
}

function textOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const code = "code" in error ? String(error.code) : "";
  // Several addresses that all failed come as one error without words of its own.
  return error.message === "" ? code : error.message;
}
