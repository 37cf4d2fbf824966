import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

/** One of several panels. */
export interface Tab {
  readonly name: string;
  readonly content: () => ComponentChildren;
}

/** The tab that was chosen last, by the label of its tabs. */
const lastChosen = new Map<string, string>();

/** Panels of which one is shown. Arrow keys go from one to the next. `isKept` shows the tab that was chosen last. */
export function Tabs({
  tabs,
  label,
  isKept = false,
}: {
  readonly tabs: readonly Tab[];
  readonly label: string;
  readonly isKept?: boolean;
}) {
  const kept = tabs.findIndex(({ name }) => isKept && name === lastChosen.get(label));
  const [chosen, setChosen] = useState(Math.max(0, kept));
  const choose = (next: number): void => {
    setChosen(next);
    lastChosen.set(label, tabs[next]?.name ?? "");
  };
  const at = Math.min(chosen, tabs.length - 1);
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (step === 0 || !(event.currentTarget instanceof HTMLElement)) return;
    const next = (at + step + tabs.length) % tabs.length;
    choose(next);
    event.currentTarget.querySelectorAll("button")[next]?.focus();
  };
  return (
    <div>
      <div class="tabs" role="tablist" aria-label={label} onKeyDown={onKeyDown}>
        {tabs.map(({ name }, index) => (
          <button
            key={name}
            type="button"
            role="tab"
            aria-selected={index === at}
            tabIndex={index === at ? 0 : -1}
            onClick={() => choose(index)}
          >
            {name}
          </button>
        ))}
      </div>
      <div role="tabpanel" aria-label={tabs[at]?.name} style={{ paddingTop: "12px" }}>
        {tabs[at]?.content()}
      </div>
    </div>
  );
}
