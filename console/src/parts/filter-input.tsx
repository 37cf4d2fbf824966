import { useEffect, useRef } from "preact/hooks";

import { Icon } from "./icon.tsx";
import { filterHelp } from "./filter-help.ts";

const waitMs = 250;

/** What the filter input is given. */
export interface FilterInputProps {
  readonly value: string;
  readonly isSearching: boolean;
  readonly isWrong: boolean;
  readonly onChange: (filter: string) => void;
}

/** The filter, in the language of `headgate traffic`; it applies while it is typed. */
export function FilterInput({ value, isSearching, isWrong, onChange }: FilterInputProps) {
  const input = useRef<HTMLInputElement>(null);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => {
    if (input.current !== null && document.activeElement !== input.current) input.current.value = value;
  }, [value]);
  useEffect(() => () => clearTimeout(timer.current), []);
  return (
    <div class="filter">
      <Icon name="search" size={14} />
      <input
        ref={input}
        id="filter"
        class="field"
        type="search"
        aria-label="Filter"
        aria-invalid={isWrong}
        placeholder="tool:delete_* status:err dur:>500ms since:1h"
        defaultValue={value}
        spellcheck={false}
        autocomplete="off"
        onInput={({ currentTarget }) => {
          clearTimeout(timer.current);
          timer.current = setTimeout(() => onChange(currentTarget.value), waitMs);
        }}
        onKeyDown={({ key, currentTarget }) => {
          if (key === "Enter") onChange(currentTarget.value);
          if (key === "Escape") currentTarget.blur();
        }}
      />
      {isSearching ? <span class="spinner" role="status" aria-label="Searching" /> : <kbd aria-hidden="true">/</kbd>}
      <button type="button" class="button bare" popovertarget="filter-help" aria-label="What can be searched for">
        ?
      </button>
      <div id="filter-help" popover="auto" role="dialog" aria-label="What can be searched for">
        <ul>
          {filterHelp.map(([filter, meaning]) => (
            <li key={filter}>
              <button
                type="button"
                popovertarget="filter-help"
                popovertargetaction="hide"
                onClick={() => {
                  if (input.current !== null) input.current.value = filter;
                  onChange(filter);
                }}
              >
                <code>{filter}</code> <span class="soft">{meaning}</span>
              </button>
            </li>
          ))}
        </ul>
      </div>
    </div>
  );
}
