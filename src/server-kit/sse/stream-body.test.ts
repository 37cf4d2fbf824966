import { describe, expect, it, vi } from "vitest";

import { settled } from "../../../test/support/fake-time.ts";
import { createSseStreamBody } from "./stream-body.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

function make(maxQueuedBytes = 100) {
  const onGone = vi.fn<() => void>();
  const onOverflow = vi.fn<() => void>();
  const stream = createSseStreamBody({
    bufferBytes: () => 8,
    maxQueuedBytes: () => maxQueuedBytes,
    onGone,
    onOverflow,
  });
  return { stream, onGone, onOverflow };
}

describe("an event body", () => {
  it("[KO-071] hands frames out whole and in the order in which they came", async () => {
    const { stream } = make();
    stream.write(bytes("one\n"));
    stream.write(bytes("two\n"));
    stream.end();
    expect(await new Response(stream.body).text()).toBe("one\ntwo\n");
    await stream.finished;
  });

  it("[KO-045] [KO-072] breaks off and forgets the queue when the reader lets too much pile up", async () => {
    const { stream, onGone, onOverflow } = make(10);
    expect(stream.write(bytes("12345"))).toBe(true);
    expect(stream.write(bytes("67890"))).toBe(true);
    expect(onOverflow).not.toHaveBeenCalled();
    expect(stream.write(bytes("!"))).toBe(false);
    expect(onOverflow).toHaveBeenCalledTimes(1);
    expect(stream.queuedBytes).toBe(0);
    expect(stream.write(bytes("more"))).toBe(false);
    await expect(new Response(stream.body).text()).rejects.toThrow("too slow");
    expect(onGone).not.toHaveBeenCalled();
  });

  it("counts only what the reader has not taken", async () => {
    const { stream, onOverflow } = make(10);
    const reader = stream.body.getReader();
    for (let round = 0; round < 10; round += 1) {
      stream.write(bytes("12345678"));
      await reader.read();
    }
    expect(stream.queuedBytes).toBe(0);
    expect(onOverflow).not.toHaveBeenCalled();
  });

  it("[KO-042] joins waiting frames up to the size of its buffer, never splitting one", async () => {
    const { stream } = make();
    for (const frame of ["abc", "def", "gh", "ijklmnopqrs", "t"]) stream.write(bytes(frame));
    stream.end();
    const pieces: string[] = [];
    for await (const piece of stream.body) pieces.push(new TextDecoder().decode(piece));
    expect(pieces).toEqual(["abcdefgh", "ijklmnopqrs", "t"]);
  });

  it("gives a frame at once to a reader that waits", async () => {
    const { stream } = make();
    const reader = stream.body.getReader();
    const read = reader.read();
    await settled();
    stream.write(bytes("now"));
    expect(stream.queuedBytes).toBe(0);
    expect(new TextDecoder().decode((await read).value)).toBe("now");
    const last = reader.read();
    stream.end();
    expect((await last).done).toBe(true);
  });

  it("says once that the reader has gone", async () => {
    const { stream, onGone } = make();
    await stream.body.cancel();
    expect(onGone).toHaveBeenCalledTimes(1);
    expect(stream.write(bytes("x"))).toBe(false);
    stream.end();
  });

  it("does not take its own end for a reader that has gone", async () => {
    const { stream, onGone } = make();
    stream.write(bytes("x"));
    stream.end();
    await stream.body.cancel();
    expect(onGone).not.toHaveBeenCalled();
  });

  it("frees what is queued when it is aborted after its end", async () => {
    const { stream } = make();
    stream.write(bytes("x"));
    stream.end();
    stream.abort("lingered");
    await expect(stream.body.getReader().read()).rejects.toThrow("lingered");
  });

  it("leaves a stream alone that was read to its end", async () => {
    const { stream } = make();
    stream.write(bytes("x"));
    stream.end();
    const reader = stream.body.getReader();
    await reader.read();
    await stream.finished;
    stream.abort("lingered");
    expect(await reader.read()).toEqual({ done: true, value: undefined });
  });
});
