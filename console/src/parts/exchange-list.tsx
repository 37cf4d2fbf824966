import { type ReadonlySignal, useSignal } from "@preact/signals";
import type { RefObject } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

import type { ExchangeRecord } from "../../../src/recorder/contract.ts";
import { keyOf } from "../state/live.ts";
import { ExchangeCells } from "./exchange-row.tsx";

const rowHeight = 32;
const margin = 8;

/** What the list calls back. */
export interface ExchangeListProps {
  readonly rows: readonly ExchangeRecord[];
  readonly selected: ReadonlySignal<string | undefined>;
  /** Whether the selected row is scrolled to, and gets the focus, at first. */
  readonly isFound?: boolean;
  readonly onSelect: (exchange: ExchangeRecord) => void;
  readonly onOpen: (exchange: ExchangeRecord) => void;
  readonly onEnd: () => void;
}

/** A list of any length that draws only the rows in sight. Arrow keys select, Enter opens. */
export function ExchangeList({ rows, selected, isFound = false, onSelect, onOpen, onEnd }: ExchangeListProps) {
  const box = useRef<HTMLDivElement>(null);
  const top = useSignal(0);
  const height = useSignal(600);
  useEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    const observer = new ResizeObserver(() => {
      height.value = element.clientHeight;
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  useSteadyRows(box, rows);
  const isSought = useRef(isFound);
  const choose = (row: ExchangeRecord): void => {
    isSought.current = false;
    onSelect(row);
  };
  useEffect(() => {
    const element = box.current;
    const at = rows.findIndex((row) => keyOf(row) === selected.peek());
    if (!isSought.current || element === null || at < 0) return;
    isSought.current = false;
    element.scrollTop = Math.max(0, at * rowHeight - element.clientHeight / 2);
    // What somebody types meanwhile is not for the list.
    if (document.activeElement === document.body) element.focus();
  }, [rows, selected.value]);
  const first = Math.max(0, Math.floor(top.value / rowHeight) - margin);
  const last = Math.min(rows.length, Math.ceil((top.value + height.value) / rowHeight) + margin);
  const index = rows.findIndex((row) => keyOf(row) === selected.value);

  function onKeyDown(event: KeyboardEvent): void {
    const steps: Readonly<Record<string, number>> = {
      ArrowDown: 1,
      j: 1,
      ArrowUp: -1,
      k: -1,
      PageDown: 15,
      PageUp: -15,
    };
    const current = rows[index];
    if (event.key === "Enter" && current !== undefined) onOpen(current);
    const step = event.key === "Home" ? -rows.length : event.key === "End" ? rows.length : steps[event.key];
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const next = Math.min(rows.length - 1, Math.max(0, (index < 0 ? (step > 0 ? -1 : 0) : index) + step));
    const row = rows[next];
    if (row === undefined) return;
    choose(row);
    const element = box.current;
    if (element === null) return;
    if (next * rowHeight < element.scrollTop) element.scrollTop = next * rowHeight;
    if ((next + 1) * rowHeight > element.scrollTop + element.clientHeight)
      element.scrollTop = (next + 1) * rowHeight - element.clientHeight;
  }

  return (
    <div
      class="rows"
      ref={box}
      tabIndex={0}
      role="listbox"
      aria-label="Exchanges"
      aria-activedescendant={index < 0 ? undefined : `row-${rows[index]?.id ?? ""}`}
      onKeyDown={onKeyDown}
      onScroll={({ currentTarget }) => {
        top.value = currentTarget.scrollTop;
        if (currentTarget.scrollTop + currentTarget.clientHeight > currentTarget.scrollHeight - 400) onEnd();
      }}
    >
      <div style={{ height: `${rows.length * rowHeight}px` }} role="presentation">
        {rows.slice(first, last).map((row, offset) => (
          <div
            key={keyOf(row)}
            id={`row-${row.id}`}
            role="option"
            aria-selected={keyOf(row) === selected.value}
            class={`exchange-row${keyOf(row) === selected.value ? " selected" : ""}`}
            style={{ top: `${(first + offset) * rowHeight}px` }}
            onClick={() => choose(row)}
            onDblClick={() => onOpen(row)}
          >
            <ExchangeCells exchange={row} />
          </div>
        ))}
      </div>
    </div>
  );
}

/** Keeps the rows that are looked at where they are while new ones come on top; the top of the list shows the newest. */
function useSteadyRows(box: RefObject<HTMLDivElement | null>, rows: readonly ExchangeRecord[]): void {
  const before = useRef(rows);
  useLayoutEffect(() => {
    const element = box.current;
    const old = before.current;
    before.current = rows;
    if (element === null || element.scrollTop < rowHeight) return;
    const index = Math.floor(element.scrollTop / rowHeight);
    const seen = old[index];
    if (seen === undefined) return;
    const now = rows.findIndex((row) => keyOf(row) === keyOf(seen));
    if (now >= 0 && now !== index) element.scrollTop += (now - index) * rowHeight;
  }, [rows]);
}
