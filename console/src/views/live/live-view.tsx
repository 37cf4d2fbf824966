import { type ReadonlySignal, type Signal, useComputed, useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";

import type { Figures } from "../../../../src/gateway/admin/wire.ts";
import type { ExchangeRecord } from "../../../../src/recorder/contract.ts";
import { ExchangeList } from "../../parts/exchange-list.tsx";
import { Empty, Problem } from "../../parts/notices.tsx";
import { ApiError, get } from "../../state/api.ts";
import { inParentheses, keyOf, LiveTraffic, maxRows } from "../../state/live.ts";
import { useLoaded } from "../../state/load.ts";
import { comesFrom, go, href, place, replace } from "../../state/route.ts";
import { hasSeveralRoutes, may, session } from "../../state/session.ts";
import { formatCount } from "../../text.ts";
import { ExchangeDetail } from "../exchange/exchange-detail.tsx";
import { FilterInput } from "../../parts/filter-input.tsx";
import { Strip, withNewer } from "./strip.tsx";

const stripMinutes = 15;
/** From this width on, the chosen exchange is shown beside the list. */
const wide = matchMedia("(min-width: 1081px)");

const stateNames = {
  connecting: "connecting",
  live: "live",
  paused: "paused",
  lost: "connection lost, trying again",
  stopped: "not following",
};
/** How soon the newest call replaces the one that is shown, until somebody chooses: calls may come by the thousand. */
const showMs = 2000;

/** The exchange that was opened from the list: somebody who comes back from it goes on there. */
let left: { readonly filter: string; readonly exchange: ExchangeRecord } | undefined;

/** Traffic as it happens, and the exchange that is looked at beside it. */
export function LiveView() {
  const filter = place.value.query.get("filter") ?? "";
  const traffic = useMemo(() => new LiveTraffic(filter), [filter]);
  useEffect(() => () => traffic.close(), [traffic]);
  const before = useMemo(() => (comesFrom("exchange") && left?.filter === filter ? left.exchange : undefined), []);
  const selected = useSignal<ExchangeRecord | undefined>(before);
  const isChosen = useSignal(before !== undefined);
  const selectedKey = useComputed(() => (selected.value === undefined ? undefined : keyOf(selected.value)));
  const rows = traffic.rows.value;
  const problem = traffic.problem.value;

  useNewest(traffic, selected, isChosen);

  const setFilter = (next: string): void => replace(href("live", undefined, { filter: next.trim() }));
  const open = (exchange: ExchangeRecord): void => {
    left = { filter, exchange };
    go(href("exchange", exchange.id));
  };
  const chosen = selected.value;
  return (
    <main class="view">
      <div class="head">
        <h1 class="visually-hidden">Live traffic</h1>
        <FilterInput
          value={filter}
          isSearching={traffic.isSearching.value}
          isWrong={problem instanceof ApiError && problem.code === "invalid_params"}
          onChange={setFilter}
        />
        <LiveSwitch traffic={traffic} />
      </div>
      {problem !== undefined && !isUnrecorded() && (
        <div style={{ padding: "8px 16px" }}>
          <Problem error={problem} />
        </div>
      )}
      <LiveStrip traffic={traffic} filter={filter} onFilter={setFilter} />
      <div class="live">
        <section class={`list${hasSeveralRoutes() ? " with-routes" : ""}`} aria-label="Traffic">
          <div class="rows-head" aria-hidden="true">
            <span>Time</span>
            <span>Who</span>
            {hasSeveralRoutes() && <span>Route</span>}
            <span>What</span>
            <span>Status</span>
            <span>Decision</span>
            <span>Took</span>
          </div>
          {rows.length === 0 ? (
            (problem === undefined || isUnrecorded()) && (
              <NoRows isSearching={traffic.isSearching.value} isFiltered={filter !== ""} />
            )
          ) : (
            <ExchangeList
              rows={rows}
              selected={selectedKey}
              isFound={before !== undefined}
              onSelect={(row) => {
                isChosen.value = true;
                selected.value = row;
                if (!wide.matches) open(row);
              }}
              onOpen={open}
              onEnd={() => void traffic.more()}
            />
          )}
        </section>
        <aside class="detail" aria-label="The chosen exchange" tabIndex={0}>
          {chosen === undefined ? (
            <Empty title="Nothing chosen" />
          ) : (
            <ExchangeDetail id={chosen.id} version={`${chosen.state} ${chosen.messages}`} />
          )}
        </aside>
      </div>
    </main>
  );
}

/** Until somebody chooses, the newest call is shown; a chosen one is kept up to date. */
function useNewest(
  traffic: LiveTraffic,
  selected: Signal<ExchangeRecord | undefined>,
  isChosen: ReadonlySignal<boolean>,
): void {
  const shownAt = useRef(0);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  const showNewest = (): void => {
    timer.current = undefined;
    const rows = traffic.rows.peek();
    const newest = rows.find(isToolCall) ?? rows[0];
    if (isChosen.peek() || newest === undefined) return;
    shownAt.current = performance.now();
    selected.value = newest;
  };
  useEffect(() => () => clearTimeout(timer.current), [traffic]);
  useSignalEffect(() => {
    const rows = traffic.rows.value;
    const current = selected.peek();
    const updated = rows.find((row) => current !== undefined && keyOf(row) === keyOf(current));
    if (updated !== undefined) selected.value = updated;
    if (isChosen.value) return;
    const waitMs = shownAt.current + showMs - performance.now();
    if (updated === undefined || waitMs <= 0) showNewest();
    else timer.current ??= setTimeout(showNewest, waitMs);
  });
}

function isToolCall({ kind, direction, method }: ExchangeRecord): boolean {
  return kind === "request" && direction === "c2s" && method === "tools/call";
}

function LiveSwitch({ traffic }: { readonly traffic: LiveTraffic }) {
  const isPaused = traffic.isPaused.value;
  const state = isPaused && traffic.state.value === "live" ? "paused" : traffic.state.value;
  return (
    <>
      {traffic.omitted.value > 0 && (
        <span
          class="badge warn"
          title="More happened than can be read here as it happens. All of it is recorded: filter or scroll to find it."
        >
          {formatCount(traffic.omitted.value)} left out
        </span>
      )}
      <span class="row-flex soft" role="status">
        <i class={`dot ${state}`} />
        {stateNames[state]}
      </span>
      <button
        type="button"
        class="button"
        aria-pressed={isPaused}
        onClick={() => traffic.pause(!isPaused)}
        disabled={!isPaused && state !== "live"}
      >
        {isPaused ? `Resume (${formatCount(traffic.waiting.value)} new)` : "Pause"}
      </button>
    </>
  );
}

function LiveStrip({
  traffic,
  filter,
  onFilter,
}: {
  readonly traffic: LiveTraffic;
  readonly filter: string;
  readonly onFilter: (filter: string) => void;
}) {
  const loaded = useLoaded(`${filter} ${traffic.state.value === "lost" ? "lost" : ""}`, (signal) =>
    get<Figures>("figures", { minutes: stripMinutes, filter: filter === "" ? undefined : filter }, signal),
  );
  const { value } = loaded.value;
  if (value === undefined) return <div class="strip" />;
  const rows = traffic.rows.value;
  const slots = withNewer(value.buckets, value.to, rows, Date.now());
  // What was left out, or is too old for the list by now, is not among them.
  const hasAll = rows.length < maxRows || (rows.at(-1)?.at ?? 0) <= value.to;
  const isAll = value.complete && traffic.omitted.value === 0 && hasAll;
  return (
    <Strip
      slots={slots}
      isAll={isAll}
      onBrush={(from, to) => {
        const iso = (at: number): string => new Date(at).toISOString();
        onFilter(`${inParentheses(filter)} since:${iso(from)} before:${iso(to)}`);
      }}
    />
  );
}

/** Whether there can be no traffic to show. */
function isUnrecorded(): boolean {
  return session.value.type === "in" && !session.value.about.recording;
}

function NoRows({ isSearching, isFiltered }: { readonly isSearching: boolean; readonly isFiltered: boolean }) {
  const state = session.value;
  if (isSearching) return <Empty title="Searching…" />;
  if (isUnrecorded())
    return (
      <Empty title="Nothing is recorded">
        <p>
          Set <code>record</code> in the configuration to see traffic here.
        </p>
      </Empty>
    );
  if (isFiltered) return <Empty title="Nothing matches this filter" />;
  if (state.type !== "in") return null;
  const { clientUrl = "", ownCommand, routes } = state.about;
  const endpoint = `${clientUrl}${routes[0]?.paths.at(-1) ?? "/mcp"}`;
  const asked = routes[0]?.upstream === "demo" ? `call ${endpoint} add a=2 b=40` : `tools ${endpoint}`;
  return (
    <Empty title="No traffic yet">
      <p>Calls appear here as they happen. Make one in a terminal:</p>
      <code>
        {ownCommand} {asked}
      </code>
      {may("operate") && (
        <p>
          Or call a tool in the{" "}
          <a href={href("playground")}>
            <u>playground</u>
          </a>
          .
        </p>
      )}
    </Empty>
  );
}
