import type { ExchangeRecord } from "../../../src/recorder/contract.ts";
import { hasSeveralRoutes } from "../state/session.ts";
import { formatDate, formatMs, formatTime, visibleText } from "../text.ts";
import { DecisionBadge, StatusBadge } from "./badges.tsx";
import { Foreign } from "./foreign.tsx";

/** What an exchange was about, in one line. */
export function ExchangeName({ exchange }: { readonly exchange: ExchangeRecord }) {
  const { method, target, direction, parent, upstream = "the server" } = exchange;
  const isOfGateway = parent !== undefined && direction === "c2s";
  // The id of a task says less than what was done with it.
  const [name, rest] =
    target === undefined ? [method] : method.startsWith("tasks/") ? [method, target] : [target, method];
  return (
    <span class="name cut" title={visibleText(rest === undefined ? name : `${name} ${rest}`)}>
      {isOfGateway && (
        <span class="faint" title={`the gateway asked ${visibleText(upstream)} itself, to answer the client`}>
          ↳ <Foreign text={upstream} />{" "}
        </span>
      )}
      {direction === "s2c" && (
        <span class="faint" title="from the server to the client">
          ←{" "}
        </span>
      )}
      <b>
        <Foreign text={name} />
      </b>
      {rest !== undefined && (
        <span class="faint">
          {" "}
          <Foreign text={rest} />
        </span>
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
      <span class="faint" title={formatDate(exchange.at)}>
        {formatTime(exchange.at)}
      </span>
      <span class="who cut soft" title={visibleText(whoOf(exchange))}>
        <Foreign text={whoOf(exchange)} />
      </span>
      {hasSeveralRoutes() && (
        <span class="route-cell cut soft" title={visibleText(exchange.route)}>
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
