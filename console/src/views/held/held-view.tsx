import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { Empty, Problem } from "../../parts/notices.tsx";
import { followEvents } from "../../state/events.ts";
import { note, place } from "../../state/route.ts";
import { type Held, HeldCard } from "./held-card.tsx";

/** Messages that are held: release them, change them, refuse them or answer them. With a filter, this page holds what matches. */
export function HeldView() {
  // An address only fills in the filter: a link must not stop anybody's traffic, so a person presses the button.
  const filter = useSignal("");
  const held = useSignal<readonly Held[]>([]);
  const problem = useSignal<Error | undefined>(undefined);
  /** The filter that the gateway has said it holds by. */
  const heldBy = useSignal<string | undefined>(undefined);
  const input = useRef<HTMLInputElement>(null);
  const holding = filter.value;
  useEffect(() => {
    held.value = [];
    problem.value = undefined;
    heldBy.value = undefined;
    return followEvents(
      "holds/events",
      { filter: holding === "" ? undefined : holding },
      {
        on: {
          open: (data) => {
            problem.value = undefined;
            heldBy.value = holding;
            held.value = (JSON.parse(data) as { readonly held: readonly Held[] }).held;
          },
          held: (data) => {
            held.value = [...held.value, JSON.parse(data) as Held];
          },
          released: (data) => {
            const { id } = JSON.parse(data) as { readonly id: string };
            held.value = held.value.filter((one) => one.id !== id);
          },
        },
        onLost: () => {
          heldBy.value = undefined;
          held.value = [];
        },
        onProblem: (error) => (problem.value = error),
      },
    );
  }, [holding]);
  return (
    <main class="view">
      <form
        class="head"
        onSubmit={(event) => {
          event.preventDefault();
          filter.value = input.current?.value.trim() ?? "";
          note({ hold: filter.value });
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
          defaultValue={place.peek().query.get("hold") ?? ""}
          spellcheck={false}
        />
        <button type="submit" class="button">
          Hold what matches
        </button>
        {holding !== "" && (
          <button type="button" class="button bare" onClick={() => (filter.value = "")}>
            Stop
          </button>
        )}
      </form>
      <div class="scroll" tabIndex={0} role="region" aria-label="Held messages">
        <Problem error={problem.value} />
        {held.value.length === 0 && problem.value === undefined && (
          <Empty title="Nothing is held">
            <p>
              {holding === ""
                ? "Interceptors can hold messages for a decision. This page can too, with a filter."
                : heldBy.value === holding
                  ? "Matching messages are held here while this page is open."
                  : "Connecting to the gateway…"}
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
