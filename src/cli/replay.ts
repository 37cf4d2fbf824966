import type { FilterCondition, FrameLeg } from "../recorder/contract.ts";
import { GatewayError } from "../errors.ts";
import { formatFilterProblem, parseTrafficFilter } from "../recorder/filter/parse.ts";
import { readRecordedTraffic, type RecordedTraffic } from "../recorder/replay/recorded-call.ts";
import { parseCommandLine } from "./command-line.ts";
import { commands } from "./commands.ts";
import { parseTarget } from "./client-target.ts";
import { exitCodes } from "./exit-codes.ts";
import { usageError } from "./help.ts";
import type { ServingIo } from "./io.ts";
import { readLines } from "./recordings.ts";
import { replayAgainst } from "./replay-against.ts";
import { serveReplay } from "./replay-serve.ts";

/** `headgate replay`: a recording as a server, or as a client of one. */
export async function replay(args: readonly string[], io: ServingIo): Promise<number> {
  const fail = (problem: string): number => {
    io.err(usageError("replay", problem));
    return exitCodes.usage.code;
  };
  const line = parseCommandLine(commands.replay.options, args);
  if (!line.ok) return fail(line.problem);
  const { values, program } = line;
  const [file, ...rest] = line.positionals;
  if (file === undefined || rest.length > 0) return fail("give one CAPTURE");
  const selection = parseSelection(values);
  if (!selection.ok) return fail(selection.problem);
  const { against } = values;
  const isClient = against !== undefined || program !== undefined;
  if (isClient && (values.stdio === true || values.port !== undefined))
    return fail("--stdio and --port are for serving; --against and a command are for comparing");
  const target = isClient ? parseTarget({ url: against, headers: values.header, program }) : undefined;
  if (target?.ok === false) return fail(target.problem);
  const port = values.port === undefined ? 0 : Number(values.port);
  if (!Number.isInteger(port) || port < 0 || port > 65_535) return fail("a port is a number from 0 to 65535");
  let recording: RecordedTraffic;
  try {
    recording = await readRecordedTraffic(readLines(file, io, selection.where), { leg: selection.leg });
  } catch (error) {
    return reportUnreadable("replay", error, io);
  }
  if (recording.incomplete > 0)
    io.err(`headgate replay: ${recording.incomplete} requests were not recorded whole and are left out\n`);
  if (target?.ok !== true) {
    const { stdio = false, json = false, "fail-unused": failsUnused = false } = values;
    return serveReplay(recording, { port, stdio, json, failsUnused }, io);
  }
  return replayAgainst(
    recording,
    target.value,
    {
      ignore: values.ignore ?? [],
      allowsWrites: values["allow-writes"] === true,
      json: values.json === true,
    },
    io,
  );
}

/** What of a recording is meant, as the command line says it. */
export interface Selection {
  readonly where: FilterCondition | undefined;
  readonly leg: FrameLeg;
}

/** Reads `--filter` and `--leg`. */
export function parseSelection({
  filter: source,
  leg = "client",
}: {
  readonly filter?: string;
  readonly leg?: string;
}): ({ readonly ok: true } & Selection) | { readonly ok: false; readonly problem: string } {
  if (leg !== "client" && leg !== "upstream") return { ok: false, problem: "--leg is client or upstream" };
  if (source === undefined) return { ok: true, where: undefined, leg };
  const filter = parseTrafficFilter(source, { now: Date.now() });
  return filter.ok
    ? { ok: true, where: filter.condition, leg }
    : { ok: false, problem: formatFilterProblem(source, filter.problem) };
}

/** Says why recordings could not be read; what is no fault of theirs is thrown on. */
export function reportUnreadable(command: string, error: unknown, io: Pick<ServingIo, "err">): number {
  const failure = GatewayError.from(error);
  if (failure.code !== "store_failed" && failure.code !== "config_invalid") throw error;
  io.err(`headgate ${command}: ${failure.message}\n`);
  return exitCodes.config.code;
}
