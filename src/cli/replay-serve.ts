import { createMock, describeUnmatched, type Mock } from "../recorder/replay/mock.ts";
import { serveMockHttp } from "../recorder/replay/mock-http.ts";
import { serveMockStdio } from "../recorder/replay/mock-stdio.ts";
import type { RecordedTraffic } from "../recorder/replay/recorded-call.ts";
import { exitCodes } from "./exit-codes.ts";
import type { ServingIo } from "./io.ts";
import { printable } from "./text-layout.ts";

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
    tell(
      `${calls.length - misses.length} answered, ${misses.length} not recorded, ${unused.length} never asked for\n`,
    );
    if (redactedAnswers > 0)
      tell(`${redactedAnswers} answers have placeholders where something was redacted\n`);
  }
  return misses.length > 0 || (failsUnused && unused.length > 0) ? exitCodes.refused.code : exitCodes.ok.code;
}
