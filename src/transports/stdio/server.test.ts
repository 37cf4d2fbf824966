import { type ChildProcessByStdio, spawn } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { PassThrough, type Readable, Writable } from "node:stream";
import { text } from "node:stream/consumers";

import { describe, expect, it, onTestFinished } from "vitest";

import { type Heard, listen } from "../../../test/support/stdio.ts";
import { systemTimer } from "../../core/exchange.ts";
import type { Channel } from "../transport.ts";
import { serveStdio, type StdioServerOptions } from "./server.ts";

const ping = '{"jsonrpc":"2.0","id":1,"method":"ping"}';

interface Served {
  readonly input: PassThrough;
  readonly output: PassThrough;
  readonly heard: Heard;
  readonly channel: Channel;
  /** What the client has got so far. */
  readonly got: () => string;
}

function serve(options: Partial<StdioServerOptions> = {}): Served {
  const input = new PassThrough();
  const output = new PassThrough();
  const heard = listen();
  const channel = serveStdio(
    { input, output, newId: () => "incarnation-1", setTimer: systemTimer, graceMs: 50, ...options },
    () => heard,
  );
  return { input, output, heard, channel, got: () => (output.read() as Buffer | null)?.toString() ?? "" };
}

/** A client that never reads. */
function createStuckOutput(): Writable {
  return new Writable({ highWaterMark: 10, write() {} });
}

describe("the client at our standard streams", () => {
  it("sends and gets messages, one a line", async () => {
    const { input, heard, channel, got } = serve();
    input.write(`${ping}\r\n{"id":`);
    input.write("2}\n");
    expect(await heard.received(2)).toEqual([ping, '{"id":2}']);
    await channel.send(Buffer.from('{\n"result":{}}'));
    expect(got()).toBe('{ "result":{}}\n');
    expect(channel.incarnation).toBe("incarnation-1");
  });

  it("[SC-019] may send malformed and overlong lines in between, and receives only messages", async () => {
    const { input, heard, got } = serve({ maxLineBytes: 50 });
    input.write(`hello?\n{"text":"${"x".repeat(100)}"}\n${ping}\n`);
    expect(await heard.received(1)).toEqual([ping]);
    expect(heard.rubbishLines).toEqual([
      { text: "hello?", reason: "the line is not a JSON object or batch" },
      { text: "", reason: "it has 111 bytes, and limits.stdioLineBytes is 50" },
    ]);
    expect(got()).toBe("");
  });

  it("has gone when it ends its input, yet still gets its answers", async () => {
    const { input, heard, channel, got } = serve();
    input.end(`${ping}\n`);
    const error = await heard.whenClosed;
    expect(error.code).toBe("cancelled");
    expect(heard.order).toEqual(["message", "closed"]);
    await channel.send(Buffer.from('{"result":{}}'));
    await channel.close("all calls have ended");
    expect(got()).toBe('{"result":{}}\n');
    await expect(channel.send(Buffer.from("{}"))).rejects.toMatchObject({ code: "cancelled" });
    expect(heard.order).toEqual(["message", "closed"]);
  });

  it("has gone when it no longer reads messages", async () => {
    const { output, heard, channel } = serve();
    const broken = Object.assign(new Error("write EPIPE"), { code: "EPIPE" });
    output.destroy(broken);
    const error = await heard.whenClosed;
    expect(error).toMatchObject({ code: "cancelled", cause: broken });
    await expect(channel.send(Buffer.from("{}"))).rejects.toBe(error);
    await channel.close("nothing left to do");
    expect(heard.order).toEqual(["closed"]);
  });

  it("has gone when its input breaks", async () => {
    const { input, heard } = serve();
    input.destroy(new Error("read ECONNRESET"));
    expect((await heard.whenClosed).message).toBe("the client's messages cannot be read");
  });

  it("makes us hold no more than the bound when it does not read", async () => {
    const { channel } = serve({ output: createStuckOutput(), maxQueueBytes: 1000 });
    const message = Buffer.from(JSON.stringify("x".repeat(400)));
    void channel.send(message);
    void channel.send(message);
    await expect(channel.send(message)).rejects.toMatchObject({
      code: "overloaded",
      details: { limit: 1000 },
    });
  });
});

describe("closing the connection to the client", () => {
  it("waits for the client to take what is queued, then lets go of the input", async () => {
    const { input, heard, channel, got } = serve();
    void channel.send(Buffer.from(ping));
    await channel.close("the gateway stops");
    expect(got()).toBe(`${ping}\n`);
    expect(input.destroyed).toBe(true);
    expect((await heard.whenClosed).message).toBe("the connection was closed: the gateway stops");
  });

  it("does not wait for ever", async () => {
    let elapse: (() => void) | undefined;
    const { channel } = serve({
      output: createStuckOutput(),
      setTimer(_milliseconds, callback) {
        elapse = callback;
        return () => {};
      },
    });
    void channel.send(Buffer.from(ping));
    const closed = channel.close("the gateway stops");
    elapse?.();
    await expect(closed).resolves.toBeUndefined();
  });
});

describe("a process that serves its own streams", () => {
  const script = resolve(import.meta.dirname, "../../../test/fixtures/stdio/server.mjs");

  function start(): ChildProcessByStdio<Writable, Readable, null> {
    const served = spawn(process.execPath, [script], { stdio: ["pipe", "pipe", "inherit"] });
    onTestFinished(() => void served.kill("SIGKILL"));
    return served;
  }

  it("answers what was asked before the end of its input, and ends by itself", async () => {
    const served = start();
    const exited = once(served, "exit");
    served.stdin.end(`${ping}\n`);
    expect(await text(served.stdout)).toBe(`${ping}\n`);
    expect(await exited).toEqual([0, null]);
  });

  it("survives that its client stops reading, and ends by itself", async () => {
    const served = start();
    const exited = once(served, "exit");
    served.stdout.destroy();
    served.stdin.on("error", () => {});
    served.stdin.write(`${ping}\n`);
    expect(await exited).toEqual([0, null]);
  });
});
