import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { Foreign } from "../../parts/foreign.tsx";
import { Empty, Problem } from "../../parts/notices.tsx";
import { ApiError, apiUrl, get, post } from "../../state/api.ts";
import { place, href, replace } from "../../state/route.ts";
import { may } from "../../state/session.ts";
import { formatAge, prettyJson } from "../../text.ts";

/** A message that waits for a person. */
interface Held {
  readonly id: string;
  readonly interceptor: string;
  readonly reason?: string;
  readonly exchange: string;
  readonly route: string;
  readonly principal: string;
  readonly phase: "request" | "response";
  readonly method?: string;
  readonly target?: string;
  readonly since: number;
  readonly deadline: number;
  readonly onTimeout: "block" | "continue";
  readonly text: string;
}

/** Messages that are held: let them go, change them, refuse them or answer them. With a filter, this page holds what matches. */
export function HeldView() {
  const filter = place.value.query.get("hold") ?? "";
  const held = useSignal<readonly Held[]>([]);
  const problem = useSignal<Error | undefined>(undefined);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    held.value = [];
    problem.value = undefined;
    const query = { filter: filter === "" ? undefined : filter };
    const events = new EventSource(apiUrl("holds/events", query));
    events.addEventListener("open", (event) => {
      // The connection has an event of this name too, without data.
      if (!(event instanceof MessageEvent)) return;
      problem.value = undefined;
      held.value = (JSON.parse(String(event.data)) as { readonly held: readonly Held[] }).held;
    });
    events.addEventListener("held", ({ data }: MessageEvent<string>) => {
      held.value = [...held.value, JSON.parse(data) as Held];
    });
    events.addEventListener("released", ({ data }: MessageEvent<string>) => {
      const { id } = JSON.parse(data) as { readonly id: string };
      held.value = held.value.filter((one) => one.id !== id);
    });
    events.addEventListener("error", () => {
      if (events.readyState !== EventSource.CLOSED) return;
      // A browser does not say what the answer was: ask again for it.
      get("holds").then(
        () => (problem.value = new ApiError(400, "invalid_params", "This filter cannot hold messages.")),
        (error: unknown) => (problem.value = error instanceof Error ? error : new Error(String(error))),
      );
    });
    return () => events.close();
  }, [filter]);
  return (
    <main class="view">
      <form
        class="head"
        onSubmit={(event) => {
          event.preventDefault();
          replace(href("held", undefined, { hold: input.current?.value.trim() ?? "" }));
        }}
      >
        <h1>Held messages</h1>
        <span class="spacer" />
        <input
          ref={input}
          class="field mono"
          style={{ flex: "1 1 220px", maxWidth: "420px" }}
          aria-label="Hold messages that match"
          placeholder="tool:delete_*"
          defaultValue={filter}
          spellcheck={false}
        />
        <button type="submit" class="button" disabled={!may("operate")}>
          Hold what matches
        </button>
        {filter !== "" && (
          <a class="button bare" href={href("held")}>
            Stop
          </a>
        )}
      </form>
      <div class="scroll" tabIndex={0} role="region" aria-label="Held messages">
        <Problem error={problem.value} />
        {held.value.length === 0 && problem.value === undefined && (
          <Empty title="Nothing is held">
            <p>
              {filter === ""
                ? "Interceptors can hold messages for a person; so can this page, with a filter."
                : "Messages that match wait here for you, as long as this page is open."}
            </p>
          </Empty>
        )}
        <div class="stack">
          {held.value.map((one) => (
            <HeldCard key={one.id} held={one} />
          ))}
        </div>
      </div>
    </main>
  );
}

function HeldCard({ held }: { readonly held: Held }) {
  const editor = useRef<HTMLTextAreaElement>(null);
  const problem = useSignal<Error | undefined>(undefined);
  const decide = (decision: object): void => {
    post(`holds/${encodeURIComponent(held.id)}`, decision).catch((error: unknown) => {
      problem.value = error instanceof Error ? error : new Error(String(error));
    });
  };
  const original = prettyJson(held.text);
  return (
    <article class="panel">
      <header>
        <h2>
          <Foreign text={held.target ?? held.method ?? held.phase} />
        </h2>
        <span class="soft">
          <Foreign text={`${held.method ?? "answer"} by ${held.principal} on ${held.route}`} />
        </span>
        <span class="badge note">{held.phase}</span>
        <span class="spacer" />
        <span class="faint">
          held {formatAge(held.since, Date.now())}; {held.onTimeout === "block" ? "refused" : "let go"} if nobody
          decides
        </span>
      </header>
      <div class="body stack">
        <textarea
          ref={editor}
          class="field"
          rows={Math.min(18, original.split("\n").length + 1)}
          aria-label={`Message ${held.id}`}
          spellcheck={false}
          defaultValue={original}
        />
        <div class="row-flex">
          <button
            type="button"
            class="button primary"
            onClick={() => {
              const text = editor.current?.value ?? original;
              decide(text === original ? { action: "continue" } : { action: "modify", text: compact(text) });
            }}
          >
            Let it go, as it stands here
          </button>
          <button type="button" class="button danger" onClick={() => decide({ action: "block" })}>
            Refuse it
          </button>
        </div>
        <Problem error={problem.value} />
      </div>
    </article>
  );
}

/** JSON without the spaces that were added for reading; other text stays, and the gateway says what is wrong. */
function compact(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text));
  } catch {
    return text;
  }
}
