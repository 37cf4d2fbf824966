import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";

import type { ChangeGroup, PolicyReport } from "../../../../src/gateway/evaluation/change-report.ts";
import { CopyButton } from "../../parts/copy-button.tsx";
import { Foreign } from "../../parts/foreign.tsx";
import { Empty, Problem } from "../../parts/notices.tsx";
import { RouteChoice, useRoute } from "../../parts/route-choice.tsx";
import { WideContent } from "../../parts/wide-content.tsx";
import { get, post } from "../../state/api.ts";
import { useLoaded } from "../../state/load.ts";
import { store, stored } from "../../state/page-store.ts";
import { href, note, place } from "../../state/route.ts";
import { may } from "../../state/session.ts";
import { formatCount } from "../../text.ts";

interface ReplayState {
  readonly state: "running" | "done" | "failed";
  readonly done: number;
  readonly report?: PolicyReport;
  readonly problem?: string;
}

const pollMs = 300;

/** What was written for a route and what it would change: it waits while somebody looks at an example. */
interface Draft {
  readonly text: string;
  readonly replay: ReplayState | undefined;
}
const drafts = new Map<string, Draft>();

/** What was written for a route, also before the page was loaded again. */
function draftOf(route: string): Draft | undefined {
  const text = stored(`rules ${route}`);
  return drafts.get(route) ?? (text === undefined ? undefined : { text, replay: undefined });
}

function keepDraft(route: string, draft: Draft): void {
  drafts.set(route, draft);
  store(`rules ${route}`, draft.text);
}

const periods = [
  [60, "the last hour"],
  [360, "the last 6 hours"],
  [1440, "the last day"],
  [10_080, "the last 7 days"],
] as const;

/** The period that the address names. */
function namedPeriod(): number {
  const named = Number(place.peek().query.get("minutes"));
  return periods.find(([length]) => length === named)?.[0] ?? 60;
}

const kindNames: Readonly<Record<ChangeGroup["kind"], readonly [name: string, tone: string]>> = {
  "newly-denied": ["would be refused", "bad"],
  "newly-allowed": ["would be allowed", "good"],
  "list-hidden": ["hidden from lists", "warn"],
  "list-shown": ["shown in lists", "good"],
  "arguments-changed": ["arguments differ", "note"],
  "answer-changed": ["answers differ", "note"],
  undecidable: ["cannot be told", ""],
};

/** Change rules and see which decisions of the last hours would be others. Nothing is applied. */
export function PolicyView() {
  const route = useRoute();
  const loaded = useLoaded(route.value, (signal) =>
    get<{ readonly kind: string; readonly text: string }>(`policies/${encodeURIComponent(route.value)}`, {}, signal),
  );
  const { value, error } = loaded.value;
  return (
    <main class="view">
      <div class="head">
        <h1>Policy bench</h1>
        <span class="spacer" />
        <RouteChoice route={route} />
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label="Policy bench">
        <Problem error={error} />
        {value?.kind === "remote" ? (
          <Empty title="An external decision point decides on this route">
            <p>Only rules can be tried on recorded traffic.</p>
          </Empty>
        ) : (
          value !== undefined && <Bench key={route.value} route={route.value} text={value.text} />
        )}
      </div>
    </main>
  );
}

function Bench({ route, text }: { readonly route: string; readonly text: string }) {
  const minutes = useSignal(namedPeriod());
  const draft = useMemo(() => draftOf(route), []);
  const replay = useSignal<ReplayState | undefined>(draft?.replay?.state === "done" ? draft.replay : undefined);
  const isChanged = useSignal(draft !== undefined && draft.text !== text);
  const problem = useSignal<Error | undefined>(undefined);
  const editor = useRef<HTMLTextAreaElement>(null);
  const running = useRef(0);
  useEffect(() => () => void running.current++, []);
  const keep = (): void => {
    const own = editor.current?.value ?? text;
    isChanged.value = own !== text;
    keepDraft(route, { text: own, replay: replay.peek() });
  };
  const mayRun = may("operate") && may("bodies");

  async function run(): Promise<void> {
    const own = ++running.current;
    problem.value = undefined;
    replay.value = { state: "running", done: 0 };
    try {
      const body = { route, text: editor.current?.value ?? "", minutes: minutes.value };
      const { job } = await post<{ readonly job: string }>("policy/replay", body);
      for (;;) {
        const next = await get<ReplayState>(`policy/replay/${job}`);
        if (own !== running.current) return;
        replay.value = next;
        keep();
        if (next.state !== "running") return;
        await new Promise((resolve) => setTimeout(resolve, pollMs));
      }
    } catch (thrown) {
      if (own !== running.current) return;
      replay.value = undefined;
      problem.value = thrown instanceof Error ? thrown : new Error(String(thrown));
    }
  }

  return (
    <div class="stack">
      <p class="soft">
        Edit the rules and run them over recorded traffic of this route. Nothing is applied: to use the rules, copy them
        into the configuration.
      </p>
      <textarea
        ref={editor}
        class="field policy-text"
        aria-label="Rules as YAML"
        spellcheck={false}
        defaultValue={draft?.text ?? text}
        onInput={keep}
        onKeyDown={(event) => {
          if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && mayRun) void run();
        }}
      />
      <div class="row-flex">
        <button
          type="button"
          class="button primary"
          aria-keyshortcuts="Control+Enter"
          disabled={replay.value?.state === "running" || !mayRun}
          onClick={() => void run()}
        >
          Run over
        </button>
        <select
          class="field"
          aria-label="Time to run over"
          value={String(minutes.value)}
          onChange={({ currentTarget }) => {
            minutes.value = Number(currentTarget.value);
            note({ minutes: currentTarget.value });
          }}
        >
          {periods.map(([length, name]) => (
            <option key={length} value={String(length)}>
              {name}
            </option>
          ))}
        </select>
        {replay.value?.state === "running" && (
          <span class="row-flex soft" role="status">
            <span class="spinner" /> {formatCount(replay.value.done)} messages so far
          </span>
        )}
        {isChanged.value && (
          <button
            type="button"
            class="button bare"
            onClick={() => {
              if (editor.current !== null) editor.current.value = text;
              replay.value = undefined;
              keep();
            }}
          >
            Undo all changes
          </button>
        )}
        <CopyButton label="Copy the YAML" text={() => editor.current?.value ?? ""} />
        <span class={mayRun ? "faint wide-only" : "faint"}>
          {mayRun ? "Ctrl Enter runs too" : "Running rules is for operators who may read messages."}
        </span>
      </div>
      <Problem error={problem.value} />
      {replay.value?.problem !== undefined && <Problem error={new Error(replay.value.problem)} />}
      {replay.value?.report !== undefined && <Report report={replay.value.report} />}
    </div>
  );
}

function Report({ report }: { readonly report: PolicyReport }) {
  const changed = report.groups.length;
  return (
    <section class="panel" aria-live="polite">
      <header>
        <h2>
          {changed === 0
            ? `Nothing changes in ${formatCount(report.exchanges)} messages`
            : `${formatCount(report.exchanges - report.same)} of ${formatCount(report.exchanges)} messages change`}
        </h2>
      </header>
      {changed > 0 && (
        <WideContent label="Changed decisions">
          <table class="labelled">
            <thead>
              <tr>
                <th>Change</th>
                <th>What</th>
                <th>Rule</th>
                <th>Who</th>
                <th>Details</th>
                <th class="right">Count</th>
                <th>Look</th>
              </tr>
            </thead>
            <tbody>
              {report.groups.slice(0, 200).map((group, index) => (
                <Row key={index} group={group} />
              ))}
            </tbody>
          </table>
        </WideContent>
      )}
    </section>
  );
}

function Row({ group }: { readonly group: ChangeGroup }) {
  const [name, tone] = kindNames[group.kind];
  return (
    <tr>
      <td>
        <span class={`badge ${tone}`}>{name}</span>
      </td>
      <td class="name">
        <b>
          <Foreign text={group.target ?? group.method} />
        </b>
      </td>
      <td class="name" data-label="rule">
        <Foreign text={group.rule ?? "none"} />
      </td>
      <td class="soft name" data-label="who">
        <Foreign text={group.principals.join(", ")} />
      </td>
      <td class="soft whole">
        {group.detail.slice(0, 3).map((line) => (
          <div key={line}>
            <Foreign text={line} />
          </div>
        ))}
      </td>
      <td class="right" data-label="count">
        {formatCount(group.count)}
      </td>
      <td class="links">
        {group.examples.slice(0, 3).map((id, index) => (
          <a key={id} href={href("exchange", id)}>
            <u>example {index + 1}</u>
          </a>
        ))}
      </td>
    </tr>
  );
}
