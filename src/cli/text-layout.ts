/** The columns that texts for people are broken at. */
export const textWidth = 96;

/** Breaks a text at blanks so that no line is wider than some columns, unless a single word is. */
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

/** Rows with their cells in columns, the last one wrapped, each line indented by some blanks. */
export function table(rows: readonly (readonly [...string[], string])[], indent: number): string {
  const count = Math.max(0, ...rows.map((row) => row.length)) - 1;
  const widths = Array.from({ length: count }, (_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  );
  const margin = " ".repeat(indent);
  const before = widths.reduce((sum, width) => sum + width + 2, indent);
  return rows
    .map((row) => {
      const cells = widths.map((width, column) => `${(row[column] ?? "").padEnd(width)}  `).join("");
      const lines = wrap(row.at(-1) ?? "", textWidth - before);
      return `${`${margin}${cells}${lines.join(`\n${" ".repeat(before)}`)}`.trimEnd()}\n`;
    })
    .join("");
}

/**
 * A text of a peer as it may be shown on a terminal: what could steer the terminal, or turn the order of letters around,
 * is shown as an escape. Line feeds and tabs stay.
 */
export function printable(text: string): string {
  return text.replaceAll(/[\p{Cc}\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069]/gu, (character) =>
    character === "\n" || character === "\t"
      ? character
      : `\\u${(character.codePointAt(0) ?? 0).toString(16).padStart(4, "0")}`,
  );
}

/** The same on one line. */
export function printableLine(text: string): string {
  return printable(text.trim().replaceAll(/\s+/gu, " "));
}
