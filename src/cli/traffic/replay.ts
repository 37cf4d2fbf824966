import type { FilterCondition, FrameLeg } from "../../recorder/contract.ts";
import { readRecordedTraffic, type RecordedTraffic } from "../../recorder/replay/recorded-call.ts";
import { exitCodes } from "../commands.ts";
import { defineCommand, UsageError } from "../define-command.ts";
import { parseTarget } from "../client/client.ts";
import type { ServingIo } from "../io.ts";
import { readLines } from "./recordings.ts";
import { replayAgainst } from "./replay-against.ts";
import { parseFilterArgument } from "./traffic.ts";
import { createMock, describeUnmatched, type Mock } from "../../recorder/replay/mock.ts";
import { serveMockHttp, serveMockStdio } from "../../recorder/replay/mock-server.ts";
import { printable } from "../text-layout.ts";

/** `headgate replay CAPTURE`: serves a recording, or sends it to a server and compares. */
export const replay = defineCommand("replay", async ({ values, positionals, program }, io: ServingIo) => {
  const [file, ...rest] = positionals;
  if (file === undefined || rest.length > 0) throw new UsageError("expected one CAPTURE");
  const { where, leg } = parseSelection(values);
  const { against } = values;
  const isClient = against !== undefined || program !== undefined;
  if (isClient && (values.stdio === true || values.port !== undefined))
    throw new UsageError("--stdio and --port cannot be used with --against or a command");
  const target = isClient ? parseTarget({ url: against, headers: values.header, program }) : undefined;
  const port = values.port === undefined ? 0 : Number(values.port);
  if (!Number.isInteger(port) || port < 0 || port > 65_535)
    throw new UsageError(`\`${values.port ?? ""}\` is not a port: a number from 0 to 65535`);
  const traffic = await readRecordedTraffic(readLines(file, io, where), { leg });
  if (traffic.incomplete > 0)
    io.err(`headgate replay: skipped ${traffic.incomplete} requests that were not recorded completely\n`);
  if (target === undefined) {
    const { stdio = false, json = false, "fail-unused": failsUnused = false } = values;
    return serveReplay(traffic, { port, stdio, json, failsUnused }, io);
  }
  const { ignore = [], "allow-writes": allowsWrites = false, json = false } = values;
  return replayAgainst(traffic, target, { ignore, allowsWrites, json }, io);
});

/** Parses `--filter` and `--leg`. */
export function parseSelection({ filter, leg = "client" }: { readonly filter?: string; readonly leg?: string }): {
  readonly where: FilterCondition | undefined;
  readonly leg: FrameLeg;
} {
  if (leg !== "client" && leg !== "upstream") throw new UsageError("--leg must be client or upstream");
  return { where: filter === undefined ? undefined : parseFilterArgument(filter), leg };
}

interface ServeReplayOptions {
  readonly port: number;
  readonly stdio: boolean;
  readonly json: boolean;
  readonly failsUnused: boolean;
}

/** Serves a recording until the client disconnects or the command is stopped; fails if a request was not recorded. */
async function serveReplay(traffic: RecordedTraffic, options: ServeReplayOptions, io: ServingIo): Promise<number> {
  const mock = createMock(traffic, {
    onMiss: (miss) => {
      io.err(`${printable(describeUnmatched(miss))}\n`);
    },
  });
  const count = `${traffic.calls.length} recorded calls`;
  if (options.stdio) {
    await Promise.race([serveMockStdio(mock, io.stdin, io.stdout), io.stopped()]);
  } else {
    await using server = await serveMockHttp(mock, { port: options.port });
    io.err(`replaying ${count}, listening on ${server.url}\n`);
    await io.stopped();
  }
  return reportMock(mock, options, io);
}

function reportMock(mock: Mock, { json, failsUnused, stdio }: ServeReplayOptions, io: ServingIo): number {
  const unused = mock.unused();
  const { calls, misses, redactedAnswers } = mock;
  // With --stdio, standard output carries the protocol.
  const print = stdio ? io.err : io.out;
  if (json) {
    const missed = misses.map(({ method, params }) => ({ method, params }));
    const left = unused.map(({ exchange, method, target }) => ({ exchange, method, target }));
    print(
      `${JSON.stringify({ answered: calls.length - misses.length, misses: missed, unused: left, redactedAnswers })}\n`,
    );
  } else {
    print(
      `${calls.length - misses.length} answered, ${misses.length} not recorded, ${unused.length} never requested\n`,
    );
    if (redactedAnswers > 0) print(`${redactedAnswers} responses contain placeholders for redacted values\n`);
  }
  return misses.length > 0 || (failsUnused && unused.length > 0) ? exitCodes.failed.code : exitCodes.ok.code;
}
