import type { Figures } from "../../../../src/gateway/admin/wire.ts";
import { ExchangeTable } from "../../parts/exchange-table.tsx";
import { WideContent } from "../../parts/wide-content.tsx";
import { Foreign } from "../../parts/foreign.tsx";
import { Empty, Loading, Problem } from "../../parts/notices.tsx";
import { ApiError, get } from "../../state/api.ts";
import { inParentheses } from "../../state/live.ts";
import { useRefreshed } from "../../state/load.ts";
import { href } from "../../state/route.ts";
import { hasSeveralRoutes } from "../../state/session.ts";
import { formatCount, formatMs } from "../../text.ts";
import { chosenFilter, chosenMinutes, WindowChoice, WindowFilter } from "../sessions/sessions-view.tsx";
import { Chart } from "./chart.tsx";
import { TrafficMap } from "./traffic-map.tsx";

/** Rates, errors, latencies, and who talks to whom. */
export function FiguresView() {
  const minutes = chosenMinutes();
  const filter = chosenFilter();
  const loaded = useRefreshed(`${minutes} ${filter ?? ""}`, (signal) =>
    get<Figures>("figures", { minutes, filter }, signal),
  );
  const { value, error } = loaded.value;
  // Figures of another filter are not those of one that is wrong.
  const isShown = !(error instanceof ApiError && error.code === "invalid_params");
  return (
    <main class="view">
      <div class="head">
        <h1>Figures</h1>
        <WindowFilter view="figures" minutes={minutes} loaded={loaded.value} />
        <WindowChoice view="figures" minutes={minutes} />
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label="Figures">
        <Problem error={error} />
        {value === undefined && error === undefined && <Loading what="Counting…" />}
        {isShown && value?.requests === 0 && (
          <Empty title={filter === undefined ? "No requests in this time" : "No request matches this filter"} />
        )}
        {isShown && value !== undefined && value.requests > 0 && (
          <Shown figures={value} minutes={minutes} filter={filter} />
        )}
      </div>
    </main>
  );
}

interface ShownProps {
  readonly figures: Figures;
  readonly minutes: number;
  readonly filter: string | undefined;
}

function Shown({ figures, minutes, filter: shown }: ShownProps) {
  const within = shown === undefined ? "" : `${inParentheses(shown)} `;
  const { requests, errors, refused, p50Ms, p95Ms, p99Ms } = figures;
  const share = (count: number): string => `${((count / Math.max(1, requests)) * 100).toFixed(1)} %`;
  const tiles: readonly (readonly [name: string, text: string, hint: string, filter?: string])[] = [
    ["Requests", formatCount(requests), rateOf(requests, minutes)],
    ["Errors", formatCount(errors), share(errors), `${within}error since:${minutes}m`],
    ["Refused", formatCount(refused), share(refused), `${within}status:refused since:${minutes}m`],
    ["p50", formatMs(p50Ms), "half are faster"],
    ["p95", formatMs(p95Ms), "1 in 20 is slower"],
    ["p99", formatMs(p99Ms), "1 in 100 is slower"],
  ];
  return (
    <div class="stack">
      {!figures.complete && <p class="soft">Too many requests to count: only the newest are included.</p>}
      <dl class="tiles">
        {tiles.map(([name, text, hint, filter]) => (
          <div key={name} class="tile panel">
            <dt class="soft">{name}</dt>
            <dd class="value">
              {filter === undefined || text === "0" ? text : <a href={href("live", undefined, { filter })}>{text}</a>}
            </dd>
            <dd class="faint">{hint}</dd>
          </div>
        ))}
      </dl>
      <Chart buckets={figures.buckets} />
      <TrafficMap minutes={minutes} filter={shown} version={String(figures.to)} />
      <div class="two">
        <Targets figures={figures} />
        <div class="stack">
          <Slowest figures={figures} />
          <Refusals figures={figures} />
        </div>
      </div>
    </div>
  );
}

/** How often, in a unit that needs few digits. */
function rateOf(requests: number, minutes: number): string {
  const perSecond = requests / (minutes * 60);
  return perSecond >= 1 ? `${perSecond.toFixed(1)} a second` : `${(perSecond * 60).toFixed(1)} a minute`;
}

function Targets({ figures: { targets } }: { readonly figures: Figures }) {
  return (
    <section class="panel">
      <header>
        <h2>What is used most</h2>
      </header>
      <WideContent label="What is used most">
        <table class="labelled">
          <thead>
            <tr>
              <th>Target</th>
              <th class="right">Calls</th>
              <th class="right">Errors</th>
              <th class="right">Refused</th>
              <th class="right">p50</th>
              <th class="right">p95</th>
            </tr>
          </thead>
          <tbody>
            {targets.slice(0, 15).map((row) => (
              <tr key={`${row.route} ${row.method} ${row.target ?? ""}`}>
                <td class="name whole">
                  <a href={href("live", undefined, { filter: filterOf(row) })}>
                    <b>
                      <Foreign text={row.target ?? row.method} />
                    </b>
                  </a>{" "}
                  <span class="faint">
                    <Foreign text={besideName(row)} />
                  </span>
                </td>
                <td class="right" data-label="calls">
                  {formatCount(row.count)}
                </td>
                <td class={`right${row.errors > 0 ? " bad-text" : ""}`} data-label="errors">
                  {formatCount(row.errors)}
                </td>
                <td class="right" data-label="refused">
                  {formatCount(row.refused)}
                </td>
                <td class="right" data-label="p50">
                  {formatMs(row.p50Ms)}
                </td>
                <td class="right" data-label="p95">
                  {formatMs(row.p95Ms)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </WideContent>
    </section>
  );
}

/** What stands beside the name of a row: its method, and its route where there are several. */
function besideName({ method, route, target }: Figures["targets"][number]): string {
  return [...(target === undefined ? [] : [method]), ...(hasSeveralRoutes() ? [`on ${route}`] : [])].join(" ");
}

/** Finds the exchanges of a row. */
function filterOf({ route, method, target }: Figures["targets"][number]): string {
  const terms = { route, method, ...(target === undefined ? {} : { target }) };
  return Object.entries(terms)
    .map(([name, text]) => `${name}:"${text.replaceAll(/["\\]/gu, String.raw`\$&`)}"`)
    .join(" ");
}

function Slowest({ figures: { slowest } }: { readonly figures: Figures }) {
  return (
    <section class="panel">
      <header>
        <h2>Slowest</h2>
      </header>
      <WideContent label="Slowest">
        <ExchangeTable exchanges={slowest} />
      </WideContent>
    </section>
  );
}

function Refusals({ figures: { refusals } }: { readonly figures: Figures }) {
  if (refusals.length === 0) return null;
  return (
    <section class="panel">
      <header>
        <h2>Refused by</h2>
      </header>
      <table>
        <tbody>
          {refusals.map(({ by, filter, count }) => (
            <tr key={filter}>
              <td class="name">
                <a href={href("live", undefined, { filter })}>
                  <u>
                    <Foreign text={by} />
                  </u>
                </a>
              </td>
              <td class="right">{formatCount(count)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}
