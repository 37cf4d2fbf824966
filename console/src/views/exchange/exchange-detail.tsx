import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import type { ExchangeRecord, Frame, OperationRecord } from "../../../../src/recorder/contract.ts";
import { StatusBadge } from "../../parts/badges.tsx";
import { CopyButton } from "../../parts/copy-button.tsx";
import { ExchangeName } from "../../parts/exchange-row.tsx";
import { ExchangeTable } from "../../parts/exchange-table.tsx";
import { Foreign } from "../../parts/foreign.tsx";
import { Icon } from "../../parts/icon.tsx";
import { Loading, Problem } from "../../parts/notices.tsx";
import { Tabs } from "../../parts/tabs.tsx";
import { ApiError, get } from "../../state/api.ts";
import { useLoaded } from "../../state/load.ts";
import { href, place } from "../../state/route.ts";
import { aboutRoute, may, session } from "../../state/session.ts";
import { formatDate, formatMs } from "../../text.ts";
import { asCurl, asHeadgateCall, asTest, type CopySource } from "./copies.ts";
import { Changes, Legs, Raw } from "./messages.tsx";
import { timingOf } from "./timing.ts";
import { TimingBar } from "./timing-bar.tsx";
import { decisionsOf, Findings, gatewayMessageOf, Verdict, Why } from "./why.tsx";

interface Found {
  readonly operation: OperationRecord;
  readonly frames: Readonly<Record<string, readonly Frame[]>>;
}

/** How often a request that is still running is read again. */
const runningMs = 2000;

/** Everything about one exchange. `version` changes when it does. */
export function ExchangeDetail({ id, version = "" }: { readonly id: string; readonly version?: string }) {
  const round = useSignal(0);
  const loaded = useLoaded(`${id} ${version} ${round.value}`, (signal) =>
    get<Found>(`exchanges/${encodeURIComponent(id)}`, {}, signal),
  );
  const { value, error } = loaded.value;
  const record = value?.operation.exchanges.find((one) => one.id === id) ?? value?.operation.exchanges[0];
  // What was shown stays while the gateway restarts, but not in place of an exchange that there is not.
  const isShown = error === undefined || (error instanceof ApiError && error.isUnreachable);
  const isRunning = isShown && record?.state === "open";
  useEffect(() => {
    if (!isRunning) return undefined;
    const timer = setInterval(() => round.value++, runningMs);
    return () => clearInterval(timer);
  }, [isRunning]);
  return (
    <>
      {error !== undefined && (
        <div class="exchange">
          <Problem error={error} />
        </div>
      )}
      {value === undefined || record === undefined || !isShown ? (
        error === undefined && <Loading what="Reading the exchange…" />
      ) : (
        <Shown key={record.id} record={record} operation={value.operation} frames={value.frames[record.id] ?? []} />
      )}
    </>
  );
}

interface ShownProps {
  readonly record: ExchangeRecord;
  readonly operation: OperationRecord;
  readonly frames: readonly Frame[];
}

function Shown({ record, operation, frames }: ShownProps) {
  const decisions = decisionsOf(frames);
  const others = operation.exchanges.filter(({ id }) => id !== record.id);
  const route = aboutRoute(record.route);
  const tabs = [
    {
      name: "Why",
      content: () =>
        isMessage(record) ? <Why id={record.id} route={record.route} frames={frames} /> : <Findings frames={frames} />,
    },
    { name: "Messages", content: () => <Legs frames={frames} /> },
    { name: "Changes", content: () => <Changes frames={frames} /> },
    { name: "Raw", content: () => <Raw frames={frames} /> },
    ...(others.length === 0
      ? []
      : [{ name: `Related (${others.length})`, content: () => <ExchangeTable exchanges={others} /> }]),
  ];
  return (
    <article class="exchange">
      <div class="title">
        <h1>
          <ExchangeName exchange={record} />
        </h1>
        <div class="row-flex">
          <StatusBadge state={record.state} />
          {record.modified && <span class="badge note">changed by the gateway</span>}
          {record.redacted > 0 && <span class="badge">{record.redacted} values redacted</span>}
          {isMessage(record) && (
            <span class="soft">{record.durationMs === undefined ? "still running" : formatMs(record.durationMs)}</span>
          )}
        </div>
      </div>
      <Verdict
        decisions={decisions}
        ending={{ state: record.state, code: record.gatewayCode, message: gatewayMessageOf(frames) }}
        hasPolicy={route !== undefined && route.policy !== "none"}
      />
      {isMessage(record) && <TimingBar parts={timingOf(frames, record.direction)} />}
      <Facts record={record} />
      <Copies record={record} frames={frames} paths={route?.paths} />
      <Tabs label="Parts of the exchange" tabs={tabs} setting="tab" />
    </article>
  );
}

/** Whether it is about a message, and not a request or line that brought none: no rule sees those, and they take no time. */
function isMessage({ kind }: ExchangeRecord): boolean {
  return kind !== "http" && kind !== "raw";
}

function Facts({ record }: { readonly record: ExchangeRecord }) {
  const facts: readonly (readonly [string, string | undefined])[] = [
    ["when", formatDate(record.at)],
    ["who", record.principal],
    ["client", record.client],
    ["route", record.route === "" ? undefined : record.route],
    ["protocol", isMessage(record) ? `${record.revision} over ${record.transport}` : record.transport],
    ["trace", record.traceId],
    ["id", record.id],
  ];
  return (
    <dl class="facts columns">
      {facts.map(([name, value]) =>
        value === undefined ? null : (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <Foreign text={value} />
            </dd>
          </div>
        ),
      )}
      {record.session !== undefined && (
        <div>
          <dt>session</dt>
          <dd>
            <a class="mono" href={href("sessions", `session:"${record.session}"`)}>
              <u>{record.session}</u>
            </a>
          </dd>
        </div>
      )}
    </dl>
  );
}

/** The address of an exchange with the part of it that is looked at. */
function linkTo({ id }: ExchangeRecord): string {
  const tab = place.peek().query.get("tab") ?? undefined;
  return new URL(href("exchange", id, { tab }), location.href).href;
}

function Copies({
  record,
  frames,
  paths,
}: Pick<ShownProps, "record" | "frames"> & { readonly paths: readonly string[] | undefined }) {
  const state = session.value;
  const { clientUrl: origin, ownCommand } = state.type === "in" ? state.about : {};
  const request = frames[0]?.body;
  if (request === undefined || record.kind !== "request" || record.direction !== "c2s") return null;
  const answer = frames.findLast(
    ({ leg, passing, kind }) => leg === "client" && passing === "sent" && kind === "result",
  );
  const source: CopySource = {
    record,
    request,
    headers: frames[0]?.context?.http?.headers,
    answer: answer?.body,
    url: `${origin ?? ""}${paths?.at(-1) ?? "/mcp"}`,
    ownCommand,
  };
  const command = asHeadgateCall(source);
  return (
    <div class="row-flex copies" role="group" aria-label="Copy as">
      <span class="faint">Copy as</span>
      {command !== undefined && <CopyButton label="headgate call" text={() => command} />}
      <CopyButton label="curl" text={() => asCurl(source)} />
      {command !== undefined && <CopyButton label="test" text={() => asTest(source)} />}
      {may("operate") && may("bodies") && record.method === "tools/call" && record.target !== undefined && (
        <a
          class="button bare"
          href={href("playground", undefined, { route: record.route, tools: record.target, from: record.id })}
        >
          <Icon name="play" size={13} />
          run again
        </a>
      )}
      <CopyButton label="link" isBare text={() => linkTo(record)} />
    </div>
  );
}
