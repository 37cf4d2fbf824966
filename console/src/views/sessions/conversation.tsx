import { useSignal } from "@preact/signals";

import type { Turn, TurnPage } from "../../../../src/recorder/conversation/turns.ts";
import { StatusBadge } from "../../parts/badges.tsx";
import { Foreign } from "../../parts/foreign.tsx";
import { Empty, Loading, Problem } from "../../parts/notices.tsx";
import { Quote } from "../../parts/quote.tsx";
import { get } from "../../state/api.ts";
import { useLoaded } from "../../state/load.ts";
import { href } from "../../state/route.ts";
import { may } from "../../state/session.ts";
import { formatMs, formatTime } from "../../text.ts";

/** What an agent did, for people who do not read JSON-RPC: one card for each thing it asked for or was asked. */
export function Conversation({ filter, round }: { readonly filter: string; readonly round: number }) {
  // A call whose rounds are on two pages is on both.
  const turns = useSignal<ReadonlyMap<string, Turn>>(new Map());
  /** Where earlier turns go on; undefined until the first page is there. */
  const next = useSignal<{ readonly cursor: string | undefined } | undefined>(undefined);
  const add = (page: TurnPage): void => {
    turns.value = new Map([...turns.peek(), ...page.turns.map((turn) => [turn.id, turn] as const)]);
  };
  const newest = useLoaded(`${filter} ${round}`, async (signal) => {
    const page = await get<TurnPage>("conversations", { filter }, signal);
    add(page);
    if (next.peek() === undefined) next.value = { cursor: page.next };
  });
  const isFetching = useSignal(false);
  const problem = useSignal<Error | undefined>(undefined);
  async function more(cursor: string): Promise<void> {
    isFetching.value = true;
    problem.value = undefined;
    try {
      const page = await get<TurnPage>("conversations", { filter, cursor });
      add(page);
      next.value = { cursor: page.next };
    } catch (error) {
      problem.value = error instanceof Error ? error : new Error(String(error));
    } finally {
      isFetching.value = false;
    }
  }
  const error = newest.value.error ?? problem.value;
  const isLoading = isFetching.value || (next.value === undefined && newest.value.isLoading);
  const cursor = next.value?.cursor;
  const ordered = [...turns.value.values()].toSorted((one, other) => one.at - other.at);
  return (
    <div class="stack">
      <Problem error={error} />
      {!may("bodies") && <p class="soft">You may not read messages: arguments and answers are left out.</p>}
      {isLoading && <Loading what="Reading the conversation…" />}
      {cursor !== undefined && !isLoading && (
        <div>
          <button type="button" class="button" onClick={() => void more(cursor)}>
            Show earlier
          </button>
        </div>
      )}
      {next.value !== undefined && turns.value.size === 0 && <Empty title="Nothing was requested here" />}
      <ol class="cards">
        {ordered.map((turn) => (
          <Card key={turn.id} turn={turn} />
        ))}
      </ol>
    </div>
  );
}

function Card({ turn }: { readonly turn: Turn }) {
  const { id, at, by, summary, state, durationMs, rounds, arguments: given = [], questions, answer = "" } = turn;
  const tone = state === "refused" ? " refused" : state === "ok" || state === "open" ? "" : " failed";
  return (
    <li class={`card panel${tone}${by === "server" ? " asked" : ""}`}>
      <div class="row-flex">
        <h2>
          <Foreign text={summary} />
        </h2>
        <StatusBadge state={state} />
        {rounds > 1 && <span class="badge">{rounds} rounds</span>}
        <span class="spacer" />
        <span class="faint when">
          {formatTime(at)}
          {durationMs === undefined ? "" : ` · ${formatMs(durationMs)}`}
        </span>
        <a class="soft" href={href("exchange", id)} aria-label={`Details of ${summary} at ${formatTime(at)}`}>
          <u>details</u>
        </a>
      </div>
      {given.length > 0 && (
        <dl class="arguments">
          {given.map(({ name, value }) => (
            <div key={name}>
              <dt class="faint">
                <Foreign text={name} />
              </dt>
              <dd>
                <Foreign text={value} />
              </dd>
            </div>
          ))}
        </dl>
      )}
      {questions.map((one, index) => (
        <div key={index} class="question">
          <p class="soft">{one.summary}</p>
          {one.text !== undefined && <Quote label="Question" text={one.text} />}
          {one.answer !== undefined && <Quote label="Answer to the question" text={one.answer} />}
        </div>
      ))}
      {answer !== "" && <Quote label="Answer" text={answer} />}
      {state === "open" && <p class="faint">still running</p>}
    </li>
  );
}
