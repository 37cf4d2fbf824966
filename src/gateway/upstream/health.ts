import type { ErrorCode, GatewayError } from "../../errors.ts";
import type { Clock } from "../../core/exchange.ts";
import type { Message } from "../../protocol/message.ts";
import type { Metrics } from "../../telemetry/metrics.ts";

/** The health of a route's upstream, as its requests have shown it. */
export interface UpstreamHealth {
  /** A request was answered, successfully or with an error of the server. */
  answered(answer: Message | undefined): void;
  /** A request was not answered. */
  failed(error: GatewayError): void;
  /** `not tried yet`, `ok`, or `failing: … since …`, for display. */
  readonly state: string;
}

type Outcome = "ok" | "error" | "unreachable" | "invalid" | "timeout" | "cancelled" | "failed";

/** Failures that are the upstream's fault; all others say nothing about it. */
const faults: Readonly<Partial<Record<ErrorCode, Outcome>>> = {
  upstream_unreachable: "unreachable",
  upstream_invalid: "invalid",
  upstream_timeout: "timeout",
};

/** Tracks and counts the health of an upstream from its calls. Sends nothing itself. */
export function createUpstreamHealth(route: string, { metrics }: Metrics, clock: Clock): UpstreamHealth {
  const counter = (outcome: Outcome) => metrics.upstreamRequests.labels({ route, outcome });
  const counters: Readonly<Record<Outcome, ReturnType<typeof counter>>> = {
    ok: counter("ok"),
    error: counter("error"),
    unreachable: counter("unreachable"),
    invalid: counter("invalid"),
    timeout: counter("timeout"),
    cancelled: counter("cancelled"),
    failed: counter("failed"),
  };
  let hasAnswered = false;
  let failure: { readonly reason: string; readonly since: number } | undefined;
  return {
    answered: (answer) => {
      hasAnswered = true;
      failure = undefined;
      counters[answer?.kind === "error" ? "error" : "ok"].inc();
    },
    failed: (error) => {
      const fault = faults[error.code];
      counters[fault ?? (error.code === "cancelled" ? "cancelled" : "failed")].inc();
      if (fault !== undefined) failure = { reason: error.message, since: failure?.since ?? clock.wall() };
    },
    get state() {
      if (failure !== undefined) return `failing: ${failure.reason}, since ${new Date(failure.since).toISOString()}`;
      return hasAnswered ? "ok" : "not tried yet";
    },
  };
}
