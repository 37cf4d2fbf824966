import { describe, expect, it } from "vitest";

import { createFakeTime } from "../../../test/support/fake-time.ts";
import type { ControlAnswer } from "./control-bridge.ts";
import { createControlChannel } from "./control-channel.ts";
import { AgentError } from "../errors.ts";
import type { UnknownRecord } from "../json-rpc.ts";

function open(
  answer: (request: UnknownRecord, signal: AbortSignal) => Promise<ControlAnswer> = async () => ({
    ok: true,
    json: "{}",
  }),
) {
  const time = createFakeTime();
  const written: string[] = [];
  const messages: UnknownRecord[] = [];
  const warnings: AgentError[] = [];
  let broken: Error | undefined;
  const channel = createControlChannel({
    write: async (line) => {
      if (broken !== undefined) throw broken;
      written.push(line);
    },
    onRequest: answer,
    onMessage: (message) => messages.push(message),
    onWarning: (warning) => warnings.push(warning),
    timeoutMs: 1000,
    setTimer: time.setTimer,
  });
  const receive = (message: unknown): void => {
    channel.receive(JSON.stringify(message));
  };
  const breakPipe = (): void => {
    broken = new Error("EPIPE");
  };
  return { channel, time, written, messages, warnings, receive, breakPipe };
}

const success = (id: string, response?: unknown) => ({
  type: "control_response",
  response: { subtype: "success", request_id: id, response },
});

describe("the control channel", () => {
  it("[IP-032] speaks the envelope of requests and answers, one line each", async () => {
    const { channel, written, receive, time } = open(async ({ subtype }) =>
      subtype === "good" ? { ok: true, json: '{"mcp_response":{}}' } : { ok: false, error: "no\nway" },
    );
    const asked = channel.request({ subtype: "mcp_status" });
    receive(success("req_1", { mcpServers: [] }));
    expect(await asked).toEqual({ mcpServers: [] });
    receive({ type: "control_request", request_id: "R1", request: { subtype: "good" } });
    receive({ type: "control_request", request_id: "R2", request: { subtype: "bad" } });
    await time.advance(0);
    expect(written).toEqual([
      '{"type":"control_request","request_id":"req_1","request":{"subtype":"mcp_status"}}',
      '{"type":"control_response","response":{"subtype":"success","request_id":"R1","response":{"mcp_response":{}}}}',
      '{"type":"control_response","response":{"subtype":"error","request_id":"R2","error":"no\\nway"}}',
    ]);
    expect(time.pending()).toBe(0);
  });

  it("rejects what the CLI refuses, with its reason", async () => {
    const { channel, receive } = open();
    const asked = channel.request({ subtype: "mcp_reconnect" });
    receive({
      type: "control_response",
      response: { subtype: "error", request_id: "req_1", error: "not here" },
    });
    await expect(asked).rejects.toMatchObject({
      code: "control_refused",
      message: 'the CLI refused "mcp_reconnect": not here',
    });
    const silent = channel.request({ subtype: "x" });
    receive({ type: "control_response", response: { subtype: "error", request_id: "req_2" } });
    await expect(silent).rejects.toMatchObject({ code: "control_refused" });
  });

  it("[IP-060] gives up with a code when no answer comes in time, and ignores a late one", async () => {
    const { channel, time, receive } = open();
    const asked = channel.request({ subtype: "interrupt" });
    const outcome = asked.catch((error: unknown) => error);
    await time.advance(1000);
    expect(await outcome).toMatchObject({
      code: "control_timeout",
      message: expect.stringMatching(/"interrupt" within 1000 ms.*controlTimeoutMs/u),
    });
    receive(success("req_1"));
    receive(success("never asked"));
    receive({ type: "control_response" });
  });

  it("[IP-039] ignores what it does not know: fields, kinds and answers; messages of all kinds go on", async () => {
    const { messages, warnings, receive, channel } = open();
    receive({ type: "keep_alive" });
    receive({ type: "system", subtype: "brand_new", extra: [1] });
    receive({ ...success("none"), more: true });
    receive({ type: "control_cancel_request" });
    expect(messages).toEqual([{ type: "keep_alive" }, { type: "system", subtype: "brand_new", extra: [1] }]);
    const asked = channel.request({ subtype: "x" });
    receive({ ...success("req_1", "not an object"), more: true });
    expect(await asked).toEqual({});
    expect(warnings).toEqual([]);
  });

  it("[IP-040] warns about a line that is not a message, and goes on", async () => {
    const { channel, messages, warnings } = open();
    channel.receive("Warning: something \u001B[31mred");
    channel.receive("[1,2]");
    channel.receive('{"type":"control_request","request":{}}');
    channel.receive('{"type":"result"}');
    expect(warnings.map(({ code }) => code)).toEqual(["malformed_line", "malformed_line", "malformed_line"]);
    expect(warnings[0]?.details).toEqual({ line: "Warning: something \u001B[31mred" });
    expect(messages).toEqual([{ type: "result" }]);
  });

  it("[IP-041] never writes a line that it cannot encode", async () => {
    const { channel, written } = open();
    await expect(channel.request({ subtype: "x", size: 1n })).rejects.toThrow(TypeError);
    await expect(channel.send({ subtype: "x", size: 1n })).rejects.toThrow(TypeError);
    expect(written).toEqual([]);
  });

  it("[IP-048] aborts a request that the CLI cancels, and writes no answer", async () => {
    const finished = Promise.withResolvers<void>();
    const { written, receive, time } = open(async (_request, signal) => {
      await new Promise((resolve) => {
        signal.addEventListener("abort", resolve);
      });
      finished.resolve();
      return { ok: true, json: "{}" };
    });
    receive({ type: "control_request", request_id: "R1", request: { subtype: "can_use_tool" } });
    receive({ type: "control_cancel_request", request_id: "R1" });
    await finished.promise;
    await time.advance(0);
    expect(written).toEqual([]);
  });

  it("answers with an error when answering fails, and warns when the answer cannot be written", async () => {
    const { written, warnings, receive, time, breakPipe } = open(async () => {
      throw new Error("hook broke");
    });
    receive({ type: "control_request", request_id: "R1", request: { subtype: "hook_callback" } });
    await time.advance(0);
    expect(written).toEqual([
      '{"type":"control_response","response":{"subtype":"error","request_id":"R1","error":"hook broke"}}',
    ]);
    breakPipe();
    receive({ type: "control_request", request_id: "R2", request: { subtype: "hook_callback" } });
    await time.advance(0);
    expect(warnings.map(({ code }) => code)).toEqual(["cli_exited"]);
  });

  it("[IP-068] fails everything that waits, and all that comes later, when the CLI is gone", async () => {
    const aborted = Promise.withResolvers<unknown>();
    const { channel, receive, time } = open(async (_request, signal) => {
      signal.addEventListener("abort", () => {
        aborted.resolve(signal.reason);
      });
      return new Promise(() => {});
    });
    receive({ type: "control_request", request_id: "R1", request: { subtype: "can_use_tool" } });
    const asked = [channel.request({ subtype: "a" }), channel.request({ subtype: "b" })];
    const gone = new AgentError("cli_exited", "the Claude CLI ended with code 3");
    const outcome = Promise.all(asked.map(async (one) => expect(one).rejects.toBe(gone)));
    channel.fail(gone);
    await outcome;
    expect(await aborted.promise).toBe(gone);
    await expect(channel.request({ subtype: "c" })).rejects.toBe(gone);
    await expect(channel.send({ subtype: "d" })).rejects.toBe(gone);
    expect(time.pending()).toBe(0);
  });

  it("[IP-044] does not wait for the acknowledgement of what servers send, but warns of a refusal", async () => {
    const { channel, receive, warnings, time } = open();
    await channel.send({ subtype: "mcp_message" });
    receive({ type: "control_response", response: { subtype: "error", request_id: "req_1", error: "who?" } });
    await time.advance(0);
    expect(warnings).toMatchObject([{ code: "control_refused" }]);
  });

  it("rejects a request that cannot be written", async () => {
    const { channel, breakPipe } = open();
    breakPipe();
    await expect(channel.request({ subtype: "x" })).rejects.toThrow("EPIPE");
  });
});
