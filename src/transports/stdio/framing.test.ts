import { PassThrough, Writable } from "node:stream";

import { describe, expect, it } from "vitest";

import { GatewayError } from "../../errors.ts";
import { createMessageWriter } from "./framing.ts";

const options = { maxQueueBytes: 100, reader: "the peer", lost: "upstream_unreachable" } as const;

/** A stream that takes a line only when told to. */
function createSlowStream(): { stream: Writable; taken: string[]; take: () => void } {
  const taken: string[] = [];
  let waiting: (() => void) | undefined;
  const stream = new Writable({
    highWaterMark: 20,
    write(chunk: Buffer, _encoding, callback) {
      waiting = () => {
        taken.push(chunk.toString());
        callback();
      };
    },
  });
  stream.on("error", () => {});
  return { stream, taken, take: () => waiting?.() };
}

async function codeOf(outcome: void | Promise<void>): Promise<string> {
  return Promise.resolve(outcome).then(
    () => "sent",
    (error: unknown) => GatewayError.from(error).code,
  );
}

describe("a writer of messages", () => {
  it("answers at once while the stream can take more, then by a promise", async () => {
    const { stream, taken, take } = createSlowStream();
    const writer = createMessageWriter(stream, options);
    expect(writer.send(Buffer.from('{"a":1}'))).toBeUndefined();
    const second = writer.send(Buffer.from('{"b":"0123456789"}'));
    expect(second).toBeInstanceOf(Promise);
    take();
    take();
    await second;
    expect(taken).toEqual(['{"a":1}\n', '{"b":"0123456789"}\n']);
  });

  it("refuses what would make the queue longer than its bound", async () => {
    const { stream, take } = createSlowStream();
    const writer = createMessageWriter(stream, options);
    const message = Buffer.from(JSON.stringify("x".repeat(57)));
    const first = writer.send(message);
    const error = await Promise.resolve(writer.send(message)).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "overloaded", details: { limit: 100, retryAfter: 1 } });
    take();
    expect(await codeOf(first)).toBe("sent");
    const again = writer.send(message);
    take();
    expect(await codeOf(again)).toBe("sent");
  });

  it("takes a message larger than the bound when nothing waits", async () => {
    const { stream, taken, take } = createSlowStream();
    const writer = createMessageWriter(stream, options);
    const sent = writer.send(Buffer.from(JSON.stringify("x".repeat(500))));
    take();
    expect(await codeOf(sent)).toBe("sent");
    expect(taken[0]).toHaveLength(503);
  });

  it("rejects what was under way when the stream breaks", async () => {
    const { stream } = createSlowStream();
    const writer = createMessageWriter(stream, options);
    const sent = [1, 2].map(() => writer.send(Buffer.from('{"text":"0123456789"}')));
    stream.destroy(new Error("EPIPE"));
    expect(await Promise.all(sent.map(codeOf))).toEqual(["upstream_unreachable", "upstream_unreachable"]);
    await writer.flushed();
  });

  it("refuses new messages once it was stopped, but lets the queue out", async () => {
    const stream = new PassThrough();
    const writer = createMessageWriter(stream, options);
    void writer.send(Buffer.from('{"a":1}'));
    writer.stop(new GatewayError("cancelled", "over"));
    writer.stop(new GatewayError("internal", "too late to matter"));
    expect(await codeOf(writer.send(Buffer.from("{}")))).toBe("cancelled");
    await writer.flushed();
    expect(stream.read()?.toString()).toBe('{"a":1}\n');
  });
});
