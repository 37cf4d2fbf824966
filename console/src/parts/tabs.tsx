import { useSignal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";

import { note, place } from "../state/route.ts";

/** One of several panels. */
export interface Tab {
  readonly name: string;
  readonly content: () => ComponentChildren;
}

/** The tab that was chosen last, by its name in the address. */
const lastChosen = new Map<string, string>();

/**
 * Panels of which one is shown. Arrow keys go from one to the next. With `setting`, the address names the tab under that
 * name, and what comes next is shown with the tab that was chosen last.
 */
export function Tabs({
  tabs,
  label,
  setting,
}: {
  readonly tabs: readonly Tab[];
  readonly label: string;
  readonly setting?: string;
}) {
  const own = useSignal<string | undefined>(undefined);
  const named = setting === undefined ? undefined : (place.value.query.get(setting) ?? lastChosen.get(setting));
  const shown = tabs.findIndex(({ name }) => keyOf(name) === (named ?? own.value));
  const at = Math.max(0, shown);
  const choose = (next: number): void => {
    const key = keyOf(tabs[next]?.name ?? "");
    own.value = key;
    if (setting === undefined) return;
    lastChosen.set(setting, key);
    note({ [setting]: key });
  };
  useEffect(() => {
    if (setting !== undefined && shown >= 0) note({ [setting]: named });
  }, []);
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

/** The name of a tab in the address. */
function keyOf(name: string): string {
  return name.split(" ")[0]?.toLowerCase() ?? "";
}
