import {
  type ChangeGroup,
  type ChangeKind,
  changeKinds,
  type PolicyReport,
} from "../../gateway/evaluation/change-report.ts";
import type { Colors } from "../io.ts";
import { printableLine } from "../text-layout.ts";

const changeColors: Readonly<Record<ChangeKind, keyof Colors>> = {
  "newly-denied": "red",
  "newly-allowed": "green",
  "list-hidden": "red",
  "list-shown": "green",
  "arguments-changed": "yellow",
  "answer-changed": "yellow",
  undecidable: "cyan",
};

/** The report as text. */
export function formatPolicyReport(report: PolicyReport, colors: Colors): string {
  const lines: string[] = [];
  for (const [kind, label] of Object.entries(changeKinds) as [ChangeKind, string][]) {
    if (report.counts[kind] === 0) continue;
    lines.push(colors[changeColors[kind]](`${label}: ${report.counts[kind]}`));
    for (const group of report.groups.filter((one) => one.kind === kind)) lines.push(...groupLines(group, colors));
  }
  for (const [route, count] of Object.entries(report.skipped)) {
    lines.push(`skipped ${count} exchanges of route ${printableLine(route)}, which the configuration does not have`);
  }
  const total = `${report.exchanges} exchanges: ${report.same} unchanged`;
  return `${[...lines, total].join("\n")}\n`;
}

function groupLines(
  { method, target, rule, detail, count, principals, examples }: ChangeGroup,
  colors: Colors,
): readonly string[] {
  const what = printableLine(target === undefined ? method : `${method} ${target}`);
  const by = rule === undefined ? "" : ` by rule ${printableLine(rule)}`;
  const who = principals.map(printableLine).join(", ");
  return [
    `  ${String(count).padStart(6)} × ${what}${by} ${colors.dim(`(${who}; ${examples.map(printableLine).join(", ")})`)}`,
    ...detail.slice(0, 10).map((line) => `           ${printableLine(line)}`),
  ];
}
