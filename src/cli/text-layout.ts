import type { CliIo, ServingIo } from "./io.ts";

/** Width of wrapped text, in columns, where no terminal says otherwise. */
export const textWidth = 96;
const narrowest = 40;

/** The width for text on a stream: that of the terminal, as long as lines can be read. */
export function widthOf(stream: object | undefined): number {
  const columns: unknown = stream === undefined ? undefined : Reflect.get(stream, "columns");
  return typeof columns === "number" && columns > 0 ? Math.max(narrowest, Math.min(columns, textWidth)) : textWidth;
}

/** Wraps text at spaces; a longer word gets a line of its own. */
export function wrap(text: string, columns: number): readonly string[] {
  return text.split("\n").flatMap((paragraph) => {
    const lines: string[] = [];
    let line = "";
    for (const word of paragraph.split(" ")) {
      if (line !== "" && line.length + 1 + word.length > columns) {
        lines.push(line);
        line = word;
      } else line = line === "" ? word : `${line} ${word}`;
    }
    return [...lines, line];
  });
}

/** A description from a peer, wrapped and indented by two spaces; nothing if it is blank. */
export function indentedText(text: string, columns: number): readonly string[] {
  if (text.trim() === "") return [];
  return wrap(printable(text.trim()), columns - 2).map((line) => `  ${line}`.trimEnd());
}

/** Rows in aligned columns, the last column wrapped, indented by some spaces. */
export function table(
  rows: readonly (readonly [...string[], string])[],
  indent: number,
  columns: number = textWidth,
): string {
  const count = Math.max(0, ...rows.map((row) => row.length)) - 1;
  const widths = Array.from({ length: count }, (_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const margin = " ".repeat(indent);
  const before = widths.reduce((sum, width) => sum + width + 2, indent);
  return rows
    .map((row) => {
      const cells = widths.map((width, column) => `${(row[column] ?? "").padEnd(width)}  `).join("");
      const lines = wrap(row.at(-1) ?? "", Math.max(columns - before, narrowest / 2));
      return `${`${margin}${cells}${lines.join(`\n${" ".repeat(before)}`)}`.trimEnd()}\n`;
    })
    .join("");
}

/** Text from a peer made safe for a terminal: control and bidirectional characters are escaped, except \n and \t. */
export function printable(text: string): string {
  return text.replaceAll(/[\p{Cc}\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069]/gu, (character) =>
    character === "\n" || character === "\t"
      ? character
      : `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`,
  );
}

/** The same, on one line. */
export function printableLine(text: string): string {
  return printable(text.trim().replaceAll(/\s+/gu, " "));
}

/** Shows progress on standard error, if that is a terminal. */
export interface ProgressBar extends Disposable {
  readonly show: (done: number, total: number | undefined) => void;
}

const width = 30;
const intervalMs = 100;

/** Starts a progress bar. */
export function createProgressBar(
  label: string,
  { err, isTerminal }: Pick<CliIo, "err"> & Partial<Pick<ServingIo, "isTerminal">>,
  now: () => number = () => performance.now(),
): ProgressBar {
  let [shownAt, hasShown] = [-intervalMs, false];
  return {
    show: (done, total) => {
      const isDone = done === total;
      if (isTerminal !== true || (!isDone && now() - shownAt < intervalMs)) return;
      shownAt = now();
      hasShown = true;
      err(`\r\u001B[2K${formatProgress(label, done, total)}`);
    },
    [Symbol.dispose]: () => {
      if (hasShown) err("\r\u001B[2K");
    },
  };
}

/** A progress bar on one line; only a count if the total is unknown. */
export function formatProgress(label: string, done: number, total: number | undefined): string {
  if (total === undefined || total === 0) return `${label} ${done.toLocaleString("en")}`;
  const share = Math.min(1, done / total);
  const full = Math.round(share * width);
  return `${label} [${"#".repeat(full)}${"-".repeat(width - full)}] ${Math.floor(share * 100)}%`;
}
