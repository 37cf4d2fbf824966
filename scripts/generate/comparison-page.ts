import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { readFigures, type SavedFigures, type SavedRow } from "../../bench/figures.ts";

const page = resolve(import.meta.dirname, "../../docs/comparison.md");
const begin = "<!-- Measured figures: made from bench/figures/ by `npm run -s generate`. Do not edit. -->";
const end = "<!-- End of the measured figures. -->";

/** The comparison page, with what the benchmarks kept in place of what it had. */
export function renderComparisonPage(): string {
  const text = readFileSync(page, "utf8");
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from < 0 || to < from) throw new Error(`docs/comparison.md has no place for figures: ${begin}`);
  return `${text.slice(0, from)}${begin}\n\n${measured()}\n\n${text.slice(to)}`;
}

/** The sections of the page, each made from what its benchmark kept, if it did. */
const sections = [
  { bench: "peers", title: "Gateways side by side", format: peersText },
  { bench: "cells", title: "Nine cells", format: cellsText },
  { bench: "big", title: "Big messages", format: boundsText },
  { bench: "streams", title: "Many streams", format: boundsText },
  { bench: "growth", title: "Growth", format: boundsText },
] as const;

function measured(): string {
  return sections
    .flatMap(({ bench, title, format }) => {
      const figures = readFigures(bench);
      return figures === undefined ? [] : [section(title, bench, figures, format(figures))];
    })
    .join("\n\n");
}

function section(title: string, bench: string, { date, node, cores, load }: SavedFigures, body: string): string {
  const busy = load > cores ? `, with other work on the machine (load ${load})` : "";
  return `### ${title}\n\n\`npm run bench -- ${bench}\`, ${date}, Node ${node}, ${cores} virtual cores${busy}.\n\n${body}`;
}

/** A table for each thing that gateways do, and who is missing. */
function peersText({ rows }: SavedFigures): string {
  const present = rows.filter(({ figures }) => figures !== undefined);
  const tasks = [...new Set(present.map(({ name }) => name.split(", ")[0] ?? ""))];
  const tables = tasks.map((task) => {
    const own = present.filter(({ name }) => name.startsWith(`${task}, `));
    const columns = Object.keys(own[0]?.figures ?? {});
    const lines = own.map(({ name, figures, value }) => [
      name.slice(task.length + 2),
      ...columns.map((column) => number(figures?.[column])),
      name.endsWith(", headgate") ? "" : `${number(value)} ×`,
    ]);
    return `${capital(task)}:\n\n${table(["Gateway", ...columns, "Headgate's requests/s"], lines)}`;
  });
  const missing = rows.flatMap(({ name, missing: reason }) => (reason === undefined ? [] : [`- ${name}: ${reason}`]));
  return [...tables, `Not measured:\n\n${missing.join("\n")}`].join("\n\n");
}

function cellsText({ rows }: SavedFigures): string {
  const columns = ["requests/s", "p50 ms", "p99 ms", "× direct"];
  const lines = rows.map(({ name, figures, threshold }) => [
    name,
    ...columns.map((column) => number(figures?.[column])),
    threshold?.min === undefined ? "" : number(threshold.min),
  ]);
  return table(["Cell", ...columns, "× direct, as mcp-proxy in Rust publishes it"], lines);
}

function boundsText({ rows }: SavedFigures): string {
  const lines = rows.map((row) => [row.name, `${number(row.value)} ${row.unit}`, boundOf(row), row.note ?? ""]);
  return table(["What", "Measured", "Bound", ""], lines);
}

function boundOf({ threshold, value }: SavedRow): string {
  if (threshold === undefined) return "";
  const { min, max } = threshold;
  const isMissed = value === null || value < (min ?? value) || value > (max ?? value);
  const text = min === undefined ? `at most ${max}` : `at least ${min}`;
  return isMissed ? `${text}, missed` : text;
}

function number(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  return Math.abs(value) >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** A table with aligned columns, as the formatter writes it. */
function table(head: readonly string[], lines: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) =>
    Math.max(3, title.length, ...lines.map((line) => line[column]?.length ?? 0)),
  );
  const row = (cells: readonly string[]): string =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  return [row(head), `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`, ...lines.map(row)].join("\n");
}
