import { describe, expect, it } from "vitest";

import { fakeUpstream } from "../support/fake-upstream.ts";
import { startGateway } from "../support/gateway.ts";
import { startProcess } from "../support/process.ts";
import { exchange, openStream, post, postHeaders } from "../support/raw-http.ts";

const ping = { jsonrpc: "2.0", id: 1, method: "ping" };
const pong = { jsonrpc: "2.0", id: 1, result: {} };

describe("a fake upstream and the raw requests to it", () => {
  it("exchange JSON and tell what was sent", async () => {
    await using upstream = await fakeUpstream((call) => call.reply(pong, 202, { "mcp-session-id": "s" }));
    const answer = await post(upstream.url, ping, { "x-twice": ["a", "b"] });
    expect(answer).toMatchObject({ status: 202, headers: { "mcp-session-id": "s" }, json: pong, events: [] });
    expect(upstream.calls).toMatchObject([
      { method: "POST", path: "/mcp", json: ping, headers: { ...postHeaders, "x-twice": "a, b" } },
    ]);
  });

  it("exchange anything else as it is", async () => {
    await using upstream = await fakeUpstream((call) => call.replyRaw(405, { allow: "POST" }, "no"));
    const answer = await exchange(upstream.url, {
      method: "DELETE",
      headers: { host: "evil.example" },
      body: "{",
    });
    expect(answer).toMatchObject({ status: 405, headers: { allow: "POST" }, text: "no", json: undefined });
    expect(upstream.calls).toMatchObject([{ text: "{", json: undefined, headers: { host: "evil.example" } }]);
  });

  it("read a finished event stream at once", async () => {
    await using upstream = await fakeUpstream(async (call) => {
      const stream = call.stream();
      await stream.write(": comment\n\nid: 0\ndata:\n\n");
      await stream.send(pong, { id: "1", event: "message" });
      stream.end();
    });
    const { events, json } = await post(upstream.url, ping);
    expect(json).toBeUndefined();
    expect(events).toEqual([
      { id: "0", event: undefined, data: "" },
      { id: "1", event: "message", data: JSON.stringify(pong) },
    ]);
  });

  it("read an event stream event by event, while it is being written", async () => {
    const asked = Promise.withResolvers<void>();
    await using upstream = await fakeUpstream(async (call) => {
      const stream = call.stream();
      await stream.send("first");
      await asked.promise;
      await stream.send("second");
      stream.hangUp();
    });
    await using stream = await openStream(upstream.url);
    expect(stream.headers["content-type"]).toBe("text/event-stream");
    expect(await stream.next()).toMatchObject({ data: '"first"' });
    asked.resolve();
    expect(await stream.next()).toMatchObject({ data: '"second"' });
    await expect(stream.next()).rejects.toThrow(/aborted/u);
  });

  it("notice when the other side goes away", async () => {
    await using upstream = await fakeUpstream((call) => {
      call.stream();
    });
    const stream = await openStream(upstream.url);
    stream.close();
    expect(await stream.next()).toBeUndefined();
    await expect(upstream.calls[0]?.closed).resolves.toBeUndefined();
  });

  it("leave a request without answer, or cut it", async () => {
    await using upstream = await fakeUpstream((call) => {
      if (call.path.endsWith("cut")) call.hangUp();
    });
    await expect(exchange(`${upstream.url}/cut`)).rejects.toThrow(/socket hang up/u);
    const leaving = new AbortController();
    const hanging = exchange(`${upstream.url}/hang`, { signal: leaving.signal });
    await expect.poll(() => upstream.calls.length).toBe(2);
    leaving.abort();
    await expect(hanging).rejects.toThrow(/abort/u);
  });
});

describe("a started process", () => {
  const node = (code: string): [string, ...string[]] => [process.execPath, "-e", code];

  it("is waited for until it says something, on either stream, before or after", async () => {
    const code =
      'console.log("first"); console.error("ready at 7"); process.stdin.on("data", (d) => console.log(`${d}`))';
    await using child = await startProcess(node(code));
    const [, number] = await child.waitForLine(/ready at (\d)/u);
    expect(number).toBe("7");
    child.stdin.write("later\n");
    await child.waitForLine(/^later$/u);
    await child.waitForLine(/^first$/u);
    expect(child.output()).toContain("first");
  });

  it("is ended when asked to, and says how", async () => {
    const listening = await startProcess(
      node('process.on("SIGTERM", () => process.exit(3)); console.log("up"); setInterval(() => {}, 9e3)'),
    );
    await listening.waitForLine(/^up$/u);
    expect(await listening.stop()).toEqual({ code: 3, signal: null });
    expect(await listening.exited).toEqual({ code: 3, signal: null });
  });

  it("that ends or keeps silent is an error with what it printed", async () => {
    await using failing = await startProcess(node('console.error("no such port"); process.exitCode = 2'));
    await expect(failing.waitForLine(/ready/u)).rejects.toThrow(/ended \(2\)[^]*no such port/u);
    await using silent = await startProcess(node("setInterval(() => {}, 9e3)"));
    await expect(silent.waitForLine(/ready/u, 50)).rejects.toThrow(/ran for 50 ms/u);
  });

  it("that cannot start is an error", async () => {
    await expect(startProcess(["/no/such/command"])).rejects.toThrow(/ENOENT/u);
  });

  it("that is a gateway with bad arguments is an error with its message", async () => {
    await expect(startGateway(["no-such-command"])).rejects.toThrow(/ended \(2\)[^]*no-such-command/u);
  });
});
