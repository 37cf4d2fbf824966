import type { FilterCondition, FrameLeg } from "../../recorder/contract.ts";
import { GatewayError } from "../../errors.ts";
import { formatFilterProblem, parseTrafficFilter } from "../../recorder/filter/parse.ts";
import { readRecordedTraffic, type RecordedTraffic } from "../../recorder/replay/recorded-call.ts";
import { parseCommandLine } from "../command-line.ts";
import { commands, exitCodes } from "../commands.ts";
import { parseTarget } from "../client/target.ts";
import { usageError } from "../help.ts";
import type { ServingIo } from "../io.ts";
import { readLines } from "./recordings.ts";
import { replayAgainst } from "./replay-against.ts";
import { createMock, describeUnmatched, type Mock } from "../../recorder/replay/mock.ts";
import { serveMockHttp, serveMockStdio } from "../../recorder/replay/mock-server.ts";
import { printable } from "../text-layout.ts";

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

/** How a recording is served. */
export interface ServeReplayOptions {
  readonly port: number;
  readonly stdio: boolean;
  readonly json: boolean;
  readonly failsUnused: boolean;
}

/** Serves a recording until the client has gone or the command is told to stop; the exit code tells of misses. */
export async function serveReplay(
  recording: RecordedTraffic,
  settings: ServeReplayOptions,
  io: ServingIo,
): Promise<number> {
  const mock = createMock(recording, {
    onMiss: (miss) => {
      io.err(`${printable(describeUnmatched(miss))}\n`);
    },
  });
  const count = `${recording.calls.length} recorded calls`;
  if (settings.stdio) {
    await Promise.race([serveMockStdio(mock, io.stdin, io.stdout), io.stopped()]);
  } else {
    await using server = await serveMockHttp(mock, { port: settings.port });
    io.err(`replaying ${count}, listening on ${server.url}\n`);
    await io.stopped();
  }
  return reportMock(mock, settings, io);
}

function reportMock(mock: Mock, { json, failsUnused, stdio }: ServeReplayOptions, io: ServingIo): number {
  const unused = mock.unused();
  const { calls, misses, redactedAnswers } = mock;
  // Standard output is the client's where it speaks the protocol.
  const tell = stdio ? io.err : io.out;
  if (json) {
    const missed = misses.map(({ method, params }) => ({ method, params }));
    const left = unused.map(({ exchange, method, target }) => ({ exchange, method, target }));
    tell(
      `${JSON.stringify({ answered: calls.length - misses.length, misses: missed, unused: left, redactedAnswers })}\n`,
    );
  } else {
    tell(`${calls.length - misses.length} answered, ${misses.length} not recorded, ${unused.length} never asked for\n`);
    if (redactedAnswers > 0) tell(`${redactedAnswers} answers have placeholders where something was redacted\n`);
  }
  return misses.length > 0 || (failsUnused && unused.length > 0) ? exitCodes.refused.code : exitCodes.ok.code;
}
