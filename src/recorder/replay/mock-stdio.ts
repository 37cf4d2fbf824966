import type { Readable, Writable } from "node:stream";

import { createLineReader, frameLine } from "../../protocol/line-framing.ts";
import { parse } from "../../protocol/parse.ts";
import type { Mock, MockReply } from "./mock.ts";

/** Serves a recorded server to the one client at the other end of two streams; resolves when that has gone. */
export async function serveMockStdio(mock: Mock, input: Readable, output: Writable): Promise<void> {
  const running = new Set<Promise<void>>();

  function write(bytes: Buffer): void {
    output.write(frameLine(bytes));
  }

  async function perform(played: MockReply): Promise<void> {
    for (const { bytes, awaits } of played.steps) {
      write(bytes);
      if (awaits !== undefined) await mock.replied(awaits);
    }
    if (played.answer !== undefined) write(played.answer);
    for (const message of played.unsolicited) write(message);
  }

  const reader = createLineReader({
    onLine: (line) => {
      const outcome = parse(line, { revision: "unknown", mode: "observe" });
      if (!outcome.ok || outcome.form !== "single") {
        const message = outcome.ok ? "one message is expected" : outcome.failure.message;
        write(Buffer.from(JSON.stringify({ jsonrpc: "2.0", error: { code: -32_600, message } })));
      } else if (outcome.message.kind === "request") {
        const done = perform(mock.answer(outcome.message)).finally(() => running.delete(done));
        running.add(done);
      } else mock.accept(outcome.message);
    },
  });
  for await (const chunk of input) {
    // No encoding is set on the stream, so its chunks are bytes.
    reader.push(chunk as Buffer);
  }
}
