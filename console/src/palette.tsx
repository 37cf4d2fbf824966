import { signal, useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef } from "preact/hooks";

import { pageCommands, type PaletteCommand } from "./page-commands.ts";
import { go, href } from "./state/route.ts";
import { signOut } from "./state/session.ts";
import { nextTheme } from "./state/theme.ts";
import { views } from "./views.tsx";

/** Whether the command palette is open. */
export const isPaletteOpen = signal(false);

const filters: readonly (readonly [string, string])[] = [
  ["Show refused calls", "denied"],
  ["Show errors", "error"],
  ["Show slow calls", "dur:>1s"],
  ["Show what was changed", "modified"],
  ["Show tool calls only", "method:tools/call"],
  ["Show running requests", "open"],
];

function commands(text: string, ofPage: readonly PaletteCommand[]): readonly PaletteCommand[] {
  const all: readonly PaletteCommand[] = [
    ...views.map(({ view, name, key }) => ({ name: `Go to ${name}`, keys: `g ${key}`, run: () => go(href(view)) })),
    ...ofPage,
    ...filters.map(([name, filter]) => ({ name, run: () => go(href("live", undefined, { filter })) })),
    { name: "Change the theme", run: nextTheme },
    { name: "Sign out", run: () => void signOut() },
  ];
  const wanted = text.trim().toLowerCase();
  const found = all.filter(({ name }) => name.toLowerCase().includes(wanted));
  if (wanted === "") return found;
  const search = { name: `Filter traffic by ${text}`, run: () => go(href("live", undefined, { filter: text })) };
  const open = { name: `Open the exchange ${text.trim()}`, run: () => go(href("exchange", text.trim())) };
  return [...found, search, open];
}

/** Everything the console can do, found by typing. */
export function Palette() {
  return isPaletteOpen.value ? <OpenPalette /> : null;
}

function OpenPalette() {
  const text = useSignal("");
  const at = useSignal(0);
  const input = useRef<HTMLInputElement>(null);
  // Again while somebody types: a view may still have been loading.
  const ofPage = useMemo(pageCommands, [text.value]);
  const found = commands(text.value, ofPage);
  const index = Math.min(at.value, found.length - 1);
  // Before the browser draws it, so that what is typed at once is not lost.
  useLayoutEffect(() => {
    const before = document.activeElement;
    input.current?.focus();
    return () => {
      if (before instanceof HTMLElement) before.focus();
    };
  }, []);
  useEffect(
    () => document.querySelector(`#palette-${index}`)?.scrollIntoView({ block: "nearest" }),
    [index, found.length],
  );
  const close = (): void => {
    isPaletteOpen.value = false;
  };
  const run = (command: PaletteCommand | undefined): void => {
    close();
    command?.run();
  };
  return (
    <div class="palette-back" onClick={({ target, currentTarget }) => target === currentTarget && close()}>
      <div class="palette" role="dialog" aria-modal="true" aria-label="Commands">
        <input
          ref={input}
          type="text"
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={`palette-${index}`}
          aria-label="Command"
          placeholder="Type a command, a filter or an id"
          onInput={({ currentTarget }) => {
            text.value = currentTarget.value;
            at.value = 0;
          }}
          onKeyDown={(event) => {
            if (event.key === "Escape") close();
            // The key would press the button, too, that a command gives the focus to.
            if (event.key === "Tab" || event.key === "Enter") event.preventDefault();
            if (event.key === "Enter") run(found[index]);
            const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
            if (step === 0) return;
            event.preventDefault();
            at.value = (index + step + found.length) % found.length;
          }}
        />
        <ul id="palette-list" role="listbox" aria-label="Commands">
          {found.map((command, number) => (
            <li
              key={command.name}
              id={`palette-${number}`}
              role="option"
              aria-selected={number === index}
              onClick={() => run(command)}
            >
              {command.name}
              {command.keys !== undefined && <kbd>{command.keys}</kbd>}
            </li>
          ))}
        </ul>
      </div>
    </div>
  );
}
