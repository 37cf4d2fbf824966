import { readRecordedTraffic } from "../../recorder/replay/recorded-call.ts";
import { compareRuns, type RunComparison, type RunDifference } from "../../recorder/replay/run-comparison.ts";
import { describeDifference, type JsonDifference } from "../../recorder/replay/json-difference.ts";
import { exitCodes } from "../commands.ts";
import { defineCommand, UsageError } from "../define-command.ts";
import { type Colors, colorsFor, type CommandIo } from "../io.ts";
import { readLines } from "./recordings.ts";
import { parseSelection } from "./replay.ts";
import { printableLine } from "../text-layout.ts";
import { formatMs } from "./format.ts";

/** `headgate diff A B`: how two recordings differ. */
export const diff = defineCommand("diff", async ({ values, positionals }, io: CommandIo) => {
  const [a, b, ...rest] = positionals;
  if (a === undefined || b === undefined || rest.length > 0) throw new UsageError("expected two recordings");
  const { where, leg } = parseSelection(values);
  const before = await readRecordedTraffic(readLines(a, io, where), { leg });
  const after = await readRecordedTraffic(readLines(b, io, where), { leg });
  const comparison = compareRuns(before.calls, after.calls, { ignore: values.ignore ?? [] });
  if (values.json === true) io.out(`${JSON.stringify(toJson(comparison))}\n`);
  else io.out(formatComparison(comparison, a, b, colorsFor(io)));
  return comparison.differences.length === 0 ? exitCodes.ok.code : exitCodes.failed.code;
});

interface NamedCall {
  readonly exchange: string;
  readonly method: string;
  readonly target: string | undefined;
}

function toJson({ differences, ...rest }: RunComparison): unknown {
  const brief = ({ exchange, method, target }: NamedCall): NamedCall => ({ exchange, method, target });
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

function formatComparison({ same, differences, unknown }: RunComparison, a: string, b: string, colors: Colors): string {
  const lines = differences.flatMap((one) => differenceLines(one, a, b, colors));
  const redacted = unknown === 0 ? "" : `, ${unknown} redacted values not compared`;
  return `${[...lines, `${same} calls are the same, ${differences.length} differences${redacted}`].join("\n")}\n`;
}

function differenceLines(one: RunDifference, a: string, b: string, colors: Colors): readonly string[] {
  const name = ({ method, target }: Omit<NamedCall, "exchange">): string =>
    printableLine(target === undefined ? method : `${method} ${target}`);
  const indented = (list: readonly JsonDifference[]): readonly string[] =>
    list.slice(0, 10).map((difference) => `  ${printableLine(describeDifference(difference))}`);
  switch (one.type) {
    case "only-in-a":
      return [colors.red(`only in ${a}: ${name(one.call)}`)];
    case "only-in-b":
      return [colors.green(`only in ${b}: ${name(one.call)}`)];
    case "params":
      return [colors.yellow(`different parameters: ${name(one.a)}`), ...indented(one.differences)];
    case "answer":
      return [colors.yellow(`different response: ${name(one.a)}`), ...indented(one.differences)];
    case "order":
      return [`different order: ${one.moved} calls moved`];
    case "latency":
      return [`p${one.percentile} of ${name(one)}: ${formatMs(one.before)} → ${formatMs(one.after)}`];
  }
}
