import { useSignal } from "@preact/signals";
import { useEffect, useMemo } from "preact/hooks";

import type { ExchangeRecord } from "../../../../src/recorder/contract.ts";
import type { SessionSummary } from "../../../../src/gateway/admin/wire.ts";
import { whoOf } from "../../parts/exchange-row.tsx";
import { Foreign } from "../../parts/foreign.tsx";
import { Empty, Loading, Problem } from "../../parts/notices.tsx";
import { WideContent } from "../../parts/wide-content.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { FilterInput } from "../../parts/filter-input.tsx";
import { ApiError, get } from "../../state/api.ts";
import { followEvents } from "../../state/events.ts";
import { type Loaded, useLoaded, useRefreshed } from "../../state/load.ts";
import { go, href, place, replace } from "../../state/route.ts";
import { formatAge, formatCount, formatMs, visibleText } from "../../text.ts";
import { Conversation } from "./conversation.tsx";
import { Timeline } from "./timeline.tsx";

const windows = [15, 60, 360, 1440, 10_080] as const;
const windowNames: Readonly<Record<number, string>> = {
  15: "15 minutes",
  60: "1 hour",
  360: "6 hours",
  1440: "1 day",
  10080: "7 days",
};

/** Chooses how far to look back. */
export function WindowChoice({ view, minutes }: { readonly view: string; readonly minutes: number }) {
  return (
    <label class="row-flex soft">
      Last
      <select
        class="field"
        value={String(minutes)}
        onChange={({ currentTarget }) =>
          go(href(view, undefined, { minutes: currentTarget.value, filter: chosenFilter() }))
        }
      >
        {windows.map((one) => (
          <option key={one} value={String(one)}>
            {windowNames[one]}
          </option>
        ))}
      </select>
    </label>
  );
}

/** The window that the address names. */
export function chosenMinutes(): number {
  const wanted = Number(place.value.query.get("minutes"));
  return windows.find((one) => one === wanted) ?? 60;
}

/** The filter that the address names. */
export function chosenFilter(): string | undefined {
  const filter = place.value.query.get("filter")?.trim();
  return filter === "" ? undefined : (filter ?? undefined);
}

/** Chooses what is counted in a view. */
export function WindowFilter({
  view,
  minutes,
  loaded: { value, error, isLoading },
}: {
  readonly view: string;
  readonly minutes: number;
  readonly loaded: Loaded<unknown>;
}) {
  return (
    <FilterInput
      value={chosenFilter() ?? ""}
      isSearching={isLoading && (value === undefined || error !== undefined)}
      isWrong={error instanceof ApiError && error.code === "invalid_params"}
      onChange={(filter) => replace(href(view, undefined, { minutes: String(minutes), filter: filter.trim() }))}
    />
  );
}

/** Clients and what they did; one of them as a timeline or a conversation. */
export function SessionsView() {
  const { id } = place.value;
  return id === undefined ? <SessionList /> : <SessionPage key={id} filter={id} />;
}

function SessionList() {
  const minutes = chosenMinutes();
  const filter = chosenFilter();
  const loaded = useRefreshed(`${minutes} ${filter ?? ""}`, (signal) =>
    get<{ readonly sessions: readonly SessionSummary[] }>("sessions", { minutes, filter }, signal),
  );
  const { value, error } = loaded.value;
  return (
    <main class="view">
      <div class="head">
        <h1>Sessions</h1>
        <WindowFilter view="sessions" minutes={minutes} loaded={loaded.value} />
        <WindowChoice view="sessions" minutes={minutes} />
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label="Sessions">
        <Problem error={error} />
        {value === undefined && error === undefined && <Loading what="Reading the sessions…" />}
        {error === undefined && value?.sessions.length === 0 && (
          <Empty title={filter === undefined ? "No client connected in this time" : "No client matches this filter"}>
            <p class="soft">
              Choose a longer period, or {filter === undefined ? "connect a client" : "another filter"}.
            </p>
          </Empty>
        )}
        {error === undefined && value !== undefined && value.sessions.length > 0 && (
          <SessionTable sessions={value.sessions} />
        )}
      </div>
    </main>
  );
}

function SessionTable({ sessions }: { readonly sessions: readonly SessionSummary[] }) {
  const now = Date.now();
  return (
    <div class="panel">
      <WideContent label="Clients">
        <table>
          <thead>
            <tr>
              <th>Who</th>
              <th class="wide-only">Route</th>
              <th class="wide-only">Used</th>
              <th class="right">Calls</th>
              <th class="right">Errors</th>
              <th class="right">Refused</th>
              <th class="right wide-only">Lasted</th>
              <th class="right">Last seen</th>
            </tr>
          </thead>
          <tbody>
            {sessions.map((one) => (
              <tr key={one.filter}>
                <td class="nowrap">
                  <a class="long" href={href("sessions", one.filter)}>
                    <u>
                      <Foreign text={whoOf(one)} />
                    </u>
                  </a>
                  <div class={`faint${one.session === undefined ? "" : " mono"}`}>
                    <Foreign text={one.session ?? "no session"} />
                  </div>
                </td>
                <td class="wide-only">
                  <Foreign text={one.route} />
                  <div class="faint nowrap">
                    {one.revision}, {one.transport}
                  </div>
                </td>
                <td class="soft wide-only name">
                  <Foreign text={one.targets.join(", ")} />
                </td>
                <td class="right">{formatCount(one.calls)}</td>
                <td class={`right${one.errors > 0 ? " bad-text" : ""}`}>{formatCount(one.errors)}</td>
                <td class="right">{formatCount(one.refused)}</td>
                <td class="right wide-only">{formatMs(one.lastAt - one.firstAt)}</td>
                <td class="right">{formatAge(one.lastAt, now)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </WideContent>
    </div>
  );
}

const maxExchanges = 1000;
/** A session that is looked at is read again at most this often. */
const newsMs = 2000;

/** A number that grows when something that a filter finds has happened. */
function useNews(filter: string): number {
  const round = useSignal(0);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const tell = (): void => {
      timer ??= setTimeout(() => {
        timer = undefined;
        round.value++;
      }, newsMs);
    };
    const stop = followEvents(
      "live",
      { filter },
      // What is wrong with the filter is said where its exchanges would be.
      { on: { exchanges: tell, omitted: tell }, onProblem: () => {} },
    );
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [filter]);
  return round.value;
}

/** What a session is called; a filter that somebody wrote is its own name. */
function nameOf(filter: string, [first]: readonly ExchangeRecord[]): string {
  if (first === undefined) return filter;
  if (filter.startsWith("session:")) return `${whoOf(first)}, session ${first.session ?? ""}`;
  return filter.startsWith("principal:") ? `${whoOf(first)} on ${first.route}, without a session` : filter;
}

function SessionPage({ filter }: { readonly filter: string }) {
  const round = useNews(filter);
  const loaded = useLoaded(`${filter} ${round}`, (signal) =>
    get<{ readonly exchanges: readonly ExchangeRecord[]; readonly next?: string }>(
      "exchanges",
      { filter, order: "newest", limit: maxExchanges },
      signal,
    ),
  );
  const { value, error } = loaded.value;
  const exchanges = useMemo(() => value?.exchanges.toReversed() ?? [], [value]);
  return (
    <main class="view">
      <div class="head">
        <a class="button bare" href={href("sessions")}>
          ← Sessions
        </a>
        <h1 class="cut" title={visibleText(filter)}>
          <Foreign text={nameOf(filter, exchanges)} />
        </h1>
        <span class="spacer" />
        <a class="button" href={href("live", undefined, { filter })}>
          Show in the list
        </a>
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label="Session">
        <Problem error={error} />
        {value === undefined && error === undefined && <Loading what="Reading the session…" />}
        {value?.next !== undefined && (
          <p class="soft">Only the newest {formatCount(maxExchanges)} messages are shown.</p>
        )}
        {value !== undefined && exchanges.length === 0 && <Empty title="Nothing was recorded for this session" />}
        {exchanges.length > 0 && (
          <Tabs
            label="Ways to look at the session"
            setting="as"
            tabs={[
              { name: "Timeline", content: () => <Timeline exchanges={exchanges} /> },
              { name: "Conversation", content: () => <Conversation filter={filter} round={round} /> },
            ]}
          />
        )}
      </div>
    </main>
  );
}
