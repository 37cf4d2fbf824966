import type { ErrorCode, GatewayError } from "../../errors.ts";
import type { Clock } from "../../core/exchange.ts";
import type { Message } from "../../protocol/message.ts";
import type { Metrics } from "../../telemetry/metrics.ts";

/** What is known of a route's upstream from the requests that went there. */
export interface UpstreamHealth {
  /** A request was answered, well or with an error of the server's own. */
  answered(answer: Message | undefined): void;
  /** A request was not answered. */
  failed(error: GatewayError): void;
  /** `not tried yet`, `ok`, or `failing: … since …`, for people. */
  readonly state: string;
}

type Outcome = "ok" | "error" | "unreachable" | "invalid" | "timeout" | "cancelled" | "failed";

/** Failures that are the upstream's own. All others say nothing about it. */
const faults: Readonly<Partial<Record<ErrorCode, Outcome>>> = {
  upstream_unreachable: "unreachable",
  upstream_invalid: "invalid",
  upstream_timeout: "timeout",
};

/** Follows how an upstream does, and counts it. Nothing is sent for this: what is known is what calls have shown. */
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
  let trouble: { readonly reason: string; readonly since: number } | undefined;
  return {
    answered: (answer) => {
      hasAnswered = true;
      trouble = undefined;
      counters[answer?.kind === "error" ? "error" : "ok"].inc();
    },
    failed: (error) => {
      const fault = faults[error.code];
      counters[fault ?? (error.code === "cancelled" ? "cancelled" : "failed")].inc();
      if (fault !== undefined) trouble = { reason: error.message, since: trouble?.since ?? clock.wall() };
    },
    get state() {
      if (trouble !== undefined) return `failing: ${trouble.reason}, since ${new Date(trouble.since).toISOString()}`;
      return hasAnswered ? "ok" : "not tried yet";
    },
  };
}
