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
export function Conversation({ filter }: { readonly filter: string }) {
  const earlier = useSignal<readonly TurnPage[]>([]);
  const cursor = useSignal<string | undefined>(undefined);
  const loaded = useLoaded(`${filter} ${cursor.value ?? ""}`, async (signal) => {
    const page = await get<TurnPage>("conversations", { filter, cursor: cursor.value }, signal);
    earlier.value = [...earlier.peek(), page];
    return page;
  });
  const { value, error, isLoading } = loaded.value;
  // A call whose rounds are on two pages is on both.
  const turns = new Map(earlier.value.flatMap((page) => page.turns.map((turn) => [turn.id, turn] as const)));
  const ordered = [...turns.values()].toSorted((one, other) => one.at - other.at);
  return (
    <div class="stack">
      <Problem error={error} />
      {!may("bodies") && <p class="soft">You may not read messages: arguments and answers are left out.</p>}
      {isLoading && <Loading what="Reading the conversation…" />}
      {value?.next !== undefined && !isLoading && (
        <div>
          <button type="button" class="button" onClick={() => (cursor.value = value.next)}>
            Show earlier
          </button>
        </div>
      )}
      {value !== undefined && turns.size === 0 && <Empty title="Nobody asked for anything here" />}
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
