import { effect, type ReadonlySignal, type Signal, useComputed, useSignal, useSignalEffect } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";

import type { Figures } from "../../../../src/gateway/admin/wire.ts";
import type { ExchangeRecord } from "../../../../src/recorder/contract.ts";
import { ExchangeList } from "../../parts/exchange-list.tsx";
import { Empty, Problem } from "../../parts/notices.tsx";
import { ApiError, get } from "../../state/api.ts";
import { inParentheses, keyOf, LiveTraffic, maxRows } from "../../state/live.ts";
import { useLoaded } from "../../state/load.ts";
import { arrivals, go, href, note, place } from "../../state/route.ts";
import { hasSeveralRoutes, may, session } from "../../state/session.ts";
import { formatCount } from "../../text.ts";
import { ExchangeDetail } from "../exchange/exchange-detail.tsx";
import { FilterInput } from "../../parts/filter-input.tsx";
import { Strip, withNewer } from "./strip.tsx";

const stripMinutes = 15;
/** From this width on, the chosen exchange is shown beside the list. */
const wide = matchMedia("(min-width: 1081px)");

/** How soon is counted again what was left out, and which part of the time that may take the gateway's reading thread. */
const [recountMs, recountShare] = [10_000, 0.05];

const stateNames = {
  connecting: "connecting",
  live: "live",
  paused: "paused",
  lost: "connection lost, trying again",
  stopped: "not following",
};
/** How soon the newest call replaces the one that is shown, until somebody chooses: calls may come by the thousand. */
const showMs = 2000;

/** Traffic as it happens, and the exchange that is looked at beside it; the address names the filter and the exchange. */
export function LiveView() {
  const filter = place.value.query.get("filter") ?? "";
  const traffic = useMemo(() => new LiveTraffic(filter), [filter]);
  useEffect(() => () => traffic.close(), [traffic]);
  const { named, selected, isChosen, choose } = useChoice(traffic);
  const selectedKey = useComputed(() => (selected.value === undefined ? undefined : keyOf(selected.value)));
  const rows = traffic.rows.value;
  const problem = traffic.problem.value;

  useNewest(traffic, selected, isChosen);

  const setFilter = (next: string): void => note({ filter: next.trim() });
  const open = (exchange: ExchangeRecord): void => {
    choose(exchange);
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
              isFound={named.value !== undefined}
              onSelect={wide.matches ? choose : open}
              onOpen={open}
              onEnd={() => void traffic.more()}
            />
          )}
        </section>
        <aside
          class="detail"
          aria-label="The chosen exchange"
          tabIndex={0}
          // Who reads in it has chosen it: newer calls do not take its place.
          onFocusIn={() => chosen !== undefined && !isChosen.value && choose(chosen)}
        >
          {chosen === undefined && named.value === undefined ? (
            <Empty title="Nothing chosen" />
          ) : (
            <ExchangeDetail
              id={chosen?.id ?? named.value ?? ""}
              version={chosen === undefined ? "" : `${chosen.state} ${chosen.messages}`}
            />
          )}
        </aside>
      </div>
    </main>
  );
}

/** The exchange that somebody has chosen, or that the address names: such as after a reload, or with a link. */
function useChoice(traffic: LiveTraffic) {
  const named = useSignal<string | undefined>(undefined);
  const selected = useSignal<ExchangeRecord | undefined>(undefined);
  const isChosen = useSignal(false);
  useSignalEffect(() => {
    // Whenever somebody arrives here; a choice that is made here is noted in the address, and needs no second look.
    void arrivals.value;
    const id = place.peek().query.get("exchange") ?? undefined;
    if (id !== undefined && id === selected.peek()?.id) return;
    named.value = id;
    selected.value = undefined;
    isChosen.value = id !== undefined;
  });
  useTrafficEffect(traffic, () => {
    const id = named.value;
    if (id !== undefined) selected.value ??= traffic.rows.value.find((row) => row.id === id);
  });
  const choose = (exchange: ExchangeRecord): void => {
    isChosen.value = true;
    selected.value = exchange;
    note({ exchange: exchange.id });
  };
  return { named, selected, isChosen, choose };
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
  useEffect(
    () => () => {
      clearTimeout(timer.current);
      timer.current = undefined;
    },
    [traffic],
  );
  useTrafficEffect(traffic, () => {
    const rows = traffic.rows.value;
    const current = selected.peek();
    if (rows.length === 0 && !traffic.isSearching.value && !isChosen.value) selected.value = undefined;
    const updated = rows.find((row) => current !== undefined && keyOf(row) === keyOf(current));
    if (updated !== undefined) selected.value = updated;
    if (isChosen.value) return;
    const waitMs = shownAt.current + showMs - performance.now();
    if (updated === undefined || waitMs <= 0) showNewest();
    else timer.current ??= setTimeout(showNewest, waitMs);
  });
}

/** An effect of signals that begins again with other traffic, such as after the filter was changed. */
function useTrafficEffect(traffic: LiveTraffic, run: () => void): void {
  useEffect(() => effect(run), [traffic]);
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
  const round = useSignal(0);
  /** How many had been left out when they were counted. */
  const counted = useRef(0);
  const tookMs = useRef(0);
  const loaded = useLoaded(
    `${filter} ${traffic.state.value === "lost" ? "lost" : ""} ${round.value}`,
    async (signal) => {
      const [omitted, startedAt] = [traffic.omitted.peek(), performance.now()];
      const query = { minutes: stripMinutes, filter: filter === "" ? undefined : filter };
      const figures = await get<Figures>("figures", query, signal);
      counted.current = omitted;
      tookMs.current = performance.now() - startedAt;
      return figures;
    },
  );
  const { value, isLoading } = loaded.value;
  const isShort = traffic.omitted.value > counted.current;
  useEffect(() => {
    if (!isShort || isLoading) return undefined;
    // What was left out is counted by the gateway, and not often: it has just had much to do.
    const timer = setTimeout(() => round.value++, Math.max(recountMs, tookMs.current / recountShare));
    return () => clearTimeout(timer);
  }, [isShort, isLoading]);
  if (value === undefined) return <div class="strip" />;
  const rows = traffic.rows.value;
  const slots = withNewer(value.buckets, value.to, rows, Date.now());
  // What was left out, or is too old for the list by now, is not among them.
  const hasAll = rows.length < maxRows || (rows.at(-1)?.at ?? 0) <= value.to;
  const isAll = value.complete && !isShort && hasAll;
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
