import { GatewayError } from "../../errors.ts";
import type { FilterCondition } from "../../recorder/contract.ts";
import { formatFilterProblem, parseTrafficFilter } from "../../recorder/filter/parse.ts";
import { type OptionValues, parseCommandLine } from "../command-line.ts";
import { commands, exitCodes } from "../commands.ts";
import { usageError } from "../help.ts";
import type { ServingIo } from "../io.ts";
import { trafficExport, trafficImport, trafficPrune } from "./archive.ts";
import { trafficFollow, trafficList, trafficStats } from "./list.ts";
import { trafficShow } from "./show.ts";

/** The outside world as `headgate traffic` uses it. */
export type TrafficIo = Pick<ServingIo, "out" | "err" | "env" | "readFile"> &
  Partial<Pick<ServingIo, "stdout" | "isTerminal" | "stopped">>;

/** What a part of `headgate traffic` is asked for. */
export interface TrafficRequest {
  readonly values: OptionValues<typeof commands.traffic.options>;
  readonly where: FilterCondition | undefined;
}

const verbs = ["list", "follow", "show", "stats", "export", "import", "prune"] as const;
type Verb = (typeof verbs)[number];

/** `headgate traffic`: what went through the gateway, and why. */
export async function traffic(args: readonly string[], io: TrafficIo): Promise<number> {
  const line = parseCommandLine(commands.traffic.options, args);
  if (!line.ok) return reportUsage(io, line.problem);
  if (line.program !== undefined) return reportUsage(io, "nothing follows `--` here");
  const [first, ...others] = line.positionals;
  const named = verbs.find((verb) => verb === first);
  const verb: Verb = named ?? (line.values.follow === true ? "follow" : "list");
  const rest = named === undefined ? line.positionals : others;
  const takesName = verb === "show" || verb === "export" || verb === "import";
  const [name, ...words] = takesName ? rest : [undefined, ...rest];
  if (takesName && name === undefined)
    return reportUsage(io, verb === "show" ? "show needs the ID of an exchange" : `${verb} needs a FILE`);
  if ((verb === "show" || verb === "import") && words.length > 0)
    return reportUsage(io, `${verb} takes one ${verb === "show" ? "ID" : "FILE"}`);
  const source = words.join(" ");
  const filter = parseTrafficFilter(source, { now: Date.now() });
  if (!filter.ok) return reportUsage(io, formatFilterProblem(source, filter.problem));
  const request: TrafficRequest = {
    values: line.values,
    where: words.length === 0 ? undefined : filter.condition,
  };
  io.stdout?.on("error", exitOnBrokenPipe);
  try {
    return await runVerb(verb, name ?? "", request, io);
  } catch (error) {
    const failure = GatewayError.from(error);
    if (failure.code !== "store_failed" && failure.code !== "config_invalid") throw error;
    io.err(`headgate traffic: ${failure.message}\n`);
    return exitCodes.config.code;
  }
}

function runVerb(verb: Verb, name: string, request: TrafficRequest, io: TrafficIo): Promise<number> {
  switch (verb) {
    case "list":
      return trafficList(request, io);
    case "follow":
      return trafficFollow(request, io);
    case "show":
      return trafficShow(name, request, io);
    case "stats":
      return trafficStats(request, io);
    case "export":
      return trafficExport(name, request, io);
    case "import":
      return trafficImport(name, request, io);
    case "prune":
      return trafficPrune(request, io);
  }
}

/** Whoever reads the output may have seen enough, as `head` has. */
function exitOnBrokenPipe(error: Error): void {
  if (Reflect.get(error, "code") !== "EPIPE") throw error;
  process.exit(exitCodes.ok.code);
}

function reportUsage(io: TrafficIo, problem: string): number {
  io.err(usageError("traffic", problem));
  return exitCodes.usage.code;
}
