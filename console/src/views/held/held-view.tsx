import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { Empty, Problem } from "../../parts/notices.tsx";
import { ApiError, apiUrl, get } from "../../state/api.ts";
import { place, href, replace } from "../../state/route.ts";
import { may } from "../../state/session.ts";
import { type Held, HeldCard } from "./held-card.tsx";

/** Messages that are held: let them go, change them, refuse them or answer them. With a filter, this page holds what matches. */
export function HeldView() {
  const filter = place.value.query.get("hold") ?? "";
  const held = useSignal<readonly Held[]>([]);
  const problem = useSignal<Error | undefined>(undefined);
  /** Whether the gateway has said that it holds what matches. */
  const isHolding = useSignal(false);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    held.value = [];
    problem.value = undefined;
    isHolding.value = false;
    const query = { filter: filter === "" ? undefined : filter };
    const events = new EventSource(apiUrl("holds/events", query));
    events.addEventListener("open", (event) => {
      // The connection has an event of this name too, without data.
      if (!(event instanceof MessageEvent)) return;
      problem.value = undefined;
      isHolding.value = true;
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
      isHolding.value = false;
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
                : isHolding.value
                  ? "Messages that match wait here for you, as long as this page is open."
                  : "Asking the gateway to hold what matches…"}
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
