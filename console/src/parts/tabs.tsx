import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";

/** One of several panels. */
export interface Tab {
  readonly name: string;
  readonly content: () => ComponentChildren;
}

/** Panels of which one is shown. Arrow keys go from one to the next. */
export function Tabs({
  tabs,
  label,
  first = 0,
}: {
  readonly tabs: readonly Tab[];
  readonly label: string;
  readonly first?: number;
}) {
  const [chosen, choose] = useState(first);
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
