import type { ExchangeRecord } from "../../../src/recorder/contract.ts";
import { hasSeveralRoutes } from "../state/session.ts";
import { formatMs, formatTime } from "../text.ts";
import { DecisionBadge, StatusBadge } from "./badges.tsx";
import { Foreign } from "./foreign.tsx";

/** What an exchange was about, in one line. */
export function ExchangeName({ exchange: { method, target, direction } }: { readonly exchange: ExchangeRecord }) {
  return (
    <span class="name cut">
      {direction === "s2c" && (
        <span class="faint" title="from the server to the client">
          ←{" "}
        </span>
      )}
      {target === undefined ? (
        <b>
          <Foreign text={method} />
        </b>
      ) : (
        <>
          <b>
            <Foreign text={target} />
          </b>{" "}
          <span class="faint">
            <Foreign text={method} />
          </span>
        </>
      )}
    </span>
  );
}

/** How long it took, and which part of that in the server; the scale is logarithmic, from 0.1 ms to 100 s. */
function Took({ exchange: { durationMs, upstreamMs = 0 } }: { readonly exchange: ExchangeRecord }) {
  // A request without a message has no duration.
  if (durationMs === undefined || durationMs === 0) return <span />;
  const width = (ms: number): number => Math.max(0, Math.min(100, (Math.log10(Math.max(ms, 0.1)) + 1) * (100 / 6)));
  const all = width(durationMs);
  return (
    <span class="took">
      <span class="right">{formatMs(durationMs)}</span>
      <svg class="took-bar" viewBox="0 0 100 5" preserveAspectRatio="none" width="100%" aria-hidden="true">
        <rect class="all" width={all} height="5" />
        <rect class="up" width={durationMs === 0 ? 0 : all * Math.min(1, upstreamMs / durationMs)} height="5" />
      </svg>
    </span>
  );
}

/** Who asked: the authenticated caller, and what a client calls itself. */
export function whoOf({ principal, client }: Pick<ExchangeRecord, "principal" | "client">): string {
  if (client === undefined) return principal;
  return principal === "anonymous" ? client : `${principal}, ${client}`;
}

/** The cells of an exchange in the list. */
export function ExchangeCells({ exchange }: { readonly exchange: ExchangeRecord }) {
  return (
    <>
      <span class="faint">{formatTime(exchange.at)}</span>
      <span class="who cut soft">
        <Foreign text={whoOf(exchange)} />
      </span>
      {hasSeveralRoutes() && (
        <span class="route-cell cut soft">
          <Foreign text={exchange.route} />
        </span>
      )}
      <ExchangeName exchange={exchange} />
      <span>
        <StatusBadge state={exchange.state} />
      </span>
      <span class="rule-cell cut">
        <DecisionBadge exchange={exchange} />
      </span>
      <Took exchange={exchange} />
    </>
  );
}
