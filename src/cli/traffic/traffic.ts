import { closestName } from "../../lib/closest-name.ts";
import type { FilterCondition } from "../../recorder/contract.ts";
import { formatFilterProblem, parseTrafficFilter } from "../../recorder/filter/parse.ts";
import type { OptionValues } from "../command-line.ts";
import type { commands } from "../commands.ts";
import { defineCommand, UsageError } from "../define-command.ts";
import type { CommandIo } from "../io.ts";
import { exportTraffic, importTraffic, pruneTraffic } from "./archive.ts";
import { followTraffic, listTraffic, showStats } from "./list.ts";
import { showOperation, showTurns } from "./show.ts";

/** The parsed arguments of a verb of `headgate traffic`. */
export interface TrafficRequest {
  readonly values: OptionValues<typeof commands.traffic.options>;
  /** The ID or FILE of the verbs that take one. */
  readonly name: string;
  /** The filter, ready to be spread into a query. */
  readonly filter: { readonly where?: FilterCondition };
  /** The verb that a user who finds nothing may have meant. */
  readonly meantVerb: string | undefined;
}

const verbs = {
  list: { run: listTraffic },
  follow: { run: followTraffic },
  conversation: { run: showTurns },
  show: { run: showOperation, takes: "ID" },
  stats: { run: showStats },
  export: { run: exportTraffic, takes: "FILE", takesFilter: true },
  import: { run: importTraffic, takes: "FILE" },
  prune: { run: pruneTraffic },
} as const satisfies Readonly<Record<string, TrafficVerb>>;

interface TrafficVerb {
  readonly run: (request: TrafficRequest, io: CommandIo) => Promise<number>;
  /** The argument that comes before the filter. */
  readonly takes?: "ID" | "FILE";
  readonly takesFilter?: boolean;
}

/** `headgate traffic`: what went through the gateway. */
export const traffic = defineCommand("traffic", async ({ values, positionals }, io: CommandIo) => {
  const [first = "", ...others] = positionals;
  const isVerb = Object.hasOwn(verbs, first);
  const verbName = isVerb ? (first as keyof typeof verbs) : values.follow === true ? "follow" : "list";
  const verb: TrafficVerb = verbs[verbName];
  const rest = isVerb ? others : positionals;
  const [name = "", ...words] = verb.takes === undefined ? ["", ...rest] : rest;
  if (verb.takes !== undefined && name === "")
    throw new UsageError(`${verbName} needs ${verb.takes === "ID" ? "an ID" : "a FILE"}`);
  if (verb.takes !== undefined && verb.takesFilter !== true && words.length > 0)
    throw new UsageError(`${verbName} takes one ${verb.takes}`);
  const where = words.length === 0 ? undefined : parseFilterArgument(words.join(" "));
  const meantVerb = isVerb ? undefined : closestName(first, Object.keys(verbs));
  return verb.run({ values, name, filter: where === undefined ? {} : { where }, meantVerb }, io);
});

/** Parses a FILTER of the command line. */
export function parseFilterArgument(source: string): FilterCondition | undefined {
  const filter = parseTrafficFilter(source, { now: Date.now() });
  if (!filter.ok) throw new UsageError(formatFilterProblem(source, filter.problem));
  return filter.condition;
}
