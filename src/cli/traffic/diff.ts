import { readRecordedTraffic } from "../../recorder/replay/recorded-call.ts";
import { compareRuns, type RunComparison, type RunDifference } from "../../recorder/replay/run-comparison.ts";
import { describeDifference, type JsonDifference } from "../../recorder/replay/json-difference.ts";
import { parseCommandLine } from "../command-line.ts";
import { commands, exitCodes } from "../commands.ts";
import { usageError } from "../help.ts";
import type { ServingIo } from "../io.ts";
import { type Colors, colorsFor } from "../colors.ts";
import { readLines } from "./recordings.ts";
import { parseSelection, reportUnreadable } from "./replay.ts";
import { printableLine } from "../text-layout.ts";
import { formatMs } from "./format.ts";

/** `headgate diff A B`: in what two recordings differ. */
export async function diff(
  args: readonly string[],
  io: Pick<ServingIo, "out" | "err" | "env"> & Partial<Pick<ServingIo, "stdout">>,
): Promise<number> {
  const fail = (problem: string): number => {
    io.err(usageError("diff", problem));
    return exitCodes.usage.code;
  };
  const line = parseCommandLine(commands.diff.options, args);
  if (!line.ok) return fail(line.problem);
  const [a, b, ...rest] = line.positionals;
  if (a === undefined || b === undefined || rest.length > 0) return fail("give two recordings");
  const selection = parseSelection(line.values);
  if (!selection.ok) return fail(selection.problem);
  const { where, leg } = selection;
  let comparison: RunComparison;
  try {
    const [before, after] = [
      await readRecordedTraffic(readLines(a, io, where), { leg }),
      await readRecordedTraffic(readLines(b, io, where), { leg }),
    ];
    comparison = compareRuns(before.calls, after.calls, { ignore: line.values.ignore ?? [] });
  } catch (error) {
    return reportUnreadable("diff", error, io);
  }
  if (line.values.json === true) io.out(`${JSON.stringify(toJson(comparison))}\n`);
  else io.out(formatComparison(comparison, a, b, colorsFor(io)));
  return comparison.differences.length === 0 ? exitCodes.ok.code : exitCodes.usage.code;
}

function toJson({ differences, ...rest }: RunComparison): unknown {
  const brief = ({ exchange, method, target }: { exchange: string; method: string; target: string | undefined }) => ({
    exchange,
    method,
    target,
  });
  return {
    ...rest,
    differences: differences.map((one) => {
      if (one.type === "only-in-a" || one.type === "only-in-b") return { type: one.type, ...brief(one.call) };
      if (one.type === "params" || one.type === "answer")
        return { type: one.type, a: brief(one.a), b: brief(one.b), differences: one.differences };
      return one;
    }),
  };
}

/** A comparison for people. */
export function formatComparison(
  { same, differences, unknown }: RunComparison,
  a: string,
  b: string,
  paint: Colors,
): string {
  const lines = differences.flatMap((one) => differenceLines(one, a, b, paint));
  const redacted = unknown === 0 ? "" : `, ${unknown} places were redacted and cannot be compared`;
  return `${[...lines, `${same} calls are the same, ${differences.length} differences${redacted}`].join("\n")}\n`;
}

function differenceLines(one: RunDifference, a: string, b: string, paint: Colors): readonly string[] {
  const name = ({ method, target }: { readonly method: string; readonly target: string | undefined }): string =>
    printableLine(target === undefined ? method : `${method} ${target}`);
  const indented = (list: readonly JsonDifference[]): readonly string[] =>
    list.slice(0, 10).map((difference) => `  ${printableLine(describeDifference(difference))}`);
  switch (one.type) {
    case "only-in-a":
      return [paint.red(`only in ${a}: ${name(one.call)}`)];
    case "only-in-b":
      return [paint.green(`only in ${b}: ${name(one.call)}`)];
    case "params":
      return [paint.yellow(`other parameters: ${name(one.a)}`), ...indented(one.differences)];
    case "answer":
      return [paint.yellow(`another answer: ${name(one.a)}`), ...indented(one.differences)];
    case "order":
      return [`another order: ${one.moved} calls stand elsewhere`];
    case "latency":
      return [`p${one.percentile} of ${name(one)}: ${formatMs(one.before)} became ${formatMs(one.after)}`];
  }
}
