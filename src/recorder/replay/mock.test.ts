import { describe, expect, it } from "vitest";

import { captureOf, type ToldCall } from "../../../test/support/capture.ts";
import { messageFrom } from "../../../test/support/exchange.ts";
import type { RequestMessage } from "../../protocol/message.ts";
import { createMock, describeUnmatched, type Mock } from "./mock.ts";
import { readRecordedTraffic } from "./recorded-call.ts";

async function mockOf(calls: readonly ToldCall[]): Promise<Mock> {
  return createMock(await readRecordedTraffic(captureOf(calls)));
}

function request(members: Readonly<Record<string, unknown>>): RequestMessage {
  const message = messageFrom(JSON.stringify({ jsonrpc: "2.0", ...members }));
  if (message.kind !== "request") throw new Error("not a request");
  return message;
}

function answerOf(mock: Mock, members: Readonly<Record<string, unknown>>): unknown {
  const { answer } = mock.answer(request(members));
  return answer === undefined ? undefined : JSON.parse(answer.toString());
}

const add = (a: number, sum: number): ToldCall => ({
  method: "tools/call",
  params: { name: "add", arguments: { a, b: 1 }, _meta: { progressToken: 7, traceparent: "00-a-b-01" } },
  result: { content: [{ type: "text", text: String(sum) }] },
});

describe("a recorded server", () => {
  it("[SC-070] answers by method and canonical params, without what changes from call to call", async () => {
    const mock = await mockOf([add(1, 2), add(2, 3)]);
    const params = { _meta: { progressToken: "other" }, arguments: { b: 1, a: 2 }, name: "add" };
    expect(answerOf(mock, { id: "x", method: "tools/call", params })).toEqual({
      jsonrpc: "2.0",
      id: "x",
      result: { content: [{ type: "text", text: "3" }] },
    });
  });

  it("[SC-070] gives repeats in their order, then the last one again and again", async () => {
    const mock = await mockOf([add(1, 10), add(1, 20)]);
    const ask = (id: number) =>
      JSON.stringify(answerOf(mock, { id, method: "tools/call", params: { name: "add", arguments: { a: 1, b: 1 } } }));
    expect([ask(1), ask(2), ask(3)].map((text) => /"text":"(\d+)"/u.exec(text)?.[1])).toEqual(["10", "20", "20"]);
    expect(mock.unused()).toEqual([]);
  });

  it("[SC-070] keeps the id of the new request as it is written", async () => {
    const mock = await mockOf([add(1, 2)]);
    const text =
      '{"jsonrpc":"2.0","id":9007199254740993,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":1}}}';
    const message = messageFrom(text);
    expect(message.kind === "request" && mock.answer(message).answer?.toString()).toContain('"id":9007199254740993');
  });

  it("[SC-070] gives progress the token of the new request, and none where it has none", async () => {
    const call: ToldCall = {
      ...add(1, 2),
      before: [{ method: "notifications/progress", params: { progressToken: 7, progress: 0.5 } }],
    };
    const params = { name: "add", arguments: { a: 1, b: 1 } };
    const mock = await mockOf([call]);
    const asked = mock.answer(
      request({ id: 1, method: "tools/call", params: { ...params, _meta: { progressToken: "mine" } } }),
    );
    expect(asked.steps.map(({ bytes }) => JSON.parse(bytes.toString()))).toEqual([
      { jsonrpc: "2.0", method: "notifications/progress", params: { progressToken: "mine", progress: 0.5 } },
    ]);
    expect(mock.answer(request({ id: 2, method: "tools/call", params })).steps).toEqual([]);
  });

  it("asks what the server asked, and waits for the reply", async () => {
    const question = {
      method: "elicitation/create",
      params: { message: "Which berth?" },
      reply: { action: "decline" },
    };
    const mock = await mockOf([{ ...add(1, 2), before: [question] }]);
    const [step] = mock.answer(
      request({ id: 1, method: "tools/call", params: { name: "add", arguments: { a: 1, b: 1 } } }),
    ).steps;
    expect(step?.awaits).toBe("s:replay-1");
    expect(JSON.parse(step?.bytes.toString() ?? "")).toMatchObject({
      id: "replay-1",
      method: "elicitation/create",
    });
    const replied = mock.replied("s:replay-1");
    mock.accept(messageFrom('{"jsonrpc":"2.0","id":"replay-1","result":{"action":"accept"}}'));
    await expect(replied).resolves.toBeUndefined();
  });

  it("[SC-070] explains a miss by the nearest recordings", async () => {
    const mock = await mockOf([add(1, 2), { method: "tools/call", params: { name: "sub", arguments: {} } }]);
    const params = { name: "add", arguments: { a: 1, b: 5 }, _meta: { progressToken: 7 } };
    expect(answerOf(mock, { id: 1, method: "tools/call", params })).toMatchObject({
      error: {
        code: 4040,
        message: "this request was not recorded; nearest: capture-1-x1 add: /arguments/b: 1 changed to 5",
        data: {
          code: "not_recorded",
          nearest: [{ target: "add", differences: ["/arguments/b: 1 changed to 5"] }, { target: "sub" }],
        },
      },
    });
    expect(mock.misses.map(describeUnmatched).join("\n")).toContain(
      'tools/call {"name":"add","arguments":{"a":1,"b":5}} was not recorded; nearest:\n  capture-1-x1 add: /arguments/b: 1 changed to 5',
    );
    expect(mock.unused()).toHaveLength(2);
  });

  it("takes a redacted value for any text", async () => {
    const secret = "[redacted:0123456789ab]";
    const mock = await mockOf([
      {
        method: "tools/call",
        params: { name: "login", arguments: { user: "ann", password: secret } },
        result: { ok: 1 },
      },
    ]);
    const login = (user: string) =>
      answerOf(mock, {
        id: 1,
        method: "tools/call",
        params: { name: "login", arguments: { user, password: "p" } },
      });
    expect(login("ann")).toMatchObject({ result: { ok: 1 } });
    expect(login("bob")).toMatchObject({ error: { code: 4040 } });
  });

  it("agrees on the revision anew", async () => {
    const mock = await mockOf([
      {
        method: "initialize",
        params: { protocolVersion: "2025-11-25" },
        result: {
          protocolVersion: "2025-11-25",
          capabilities: { tools: {} },
          serverInfo: { name: "harbor", version: "3" },
        },
      },
    ]);
    const params = {
      protocolVersion: "2025-06-18",
      capabilities: {},
      clientInfo: { name: "c", version: "1" },
    };
    expect(answerOf(mock, { id: 1, method: "initialize", params })).toMatchObject({
      result: { protocolVersion: "2025-06-18", serverInfo: { name: "harbor" } },
    });
    expect(answerOf(mock, { id: 2, method: "server/discover", params: {} })).toMatchObject({
      error: { code: -32_601 },
    });
  });

  it("puts a handshake together where none was recorded", async () => {
    const mock = await mockOf([{ ...add(1, 2), context: { revision: "2026-07-28" } }]);
    expect(answerOf(mock, { id: 1, method: "server/discover", params: {} })).toMatchObject({
      result: { supportedVersions: ["2026-07-28"], capabilities: { tools: {} } },
    });
    expect(answerOf(mock, { id: 2, method: "ping" })).toMatchObject({ result: {} });
  });

  it("leaves requests open that were never answered", async () => {
    const mock = await mockOf([{ ...add(1, 2), isOpen: true }]);
    expect(
      answerOf(mock, { id: 1, method: "tools/call", params: { name: "add", arguments: { a: 1, b: 1 } } }),
    ).toBeUndefined();
  });

  it("[SC-070] says the same a thousand times over", async () => {
    const lines = captureOf([add(1, 2), add(1, 3), add(2, 3)]);
    const run = async (): Promise<string> => {
      const mock = createMock(await readRecordedTraffic(lines));
      const said = [1, 1, 2, 3].map((a, id) =>
        mock
          .answer(request({ id, method: "tools/call", params: { name: "add", arguments: { a, b: 1 } } }))
          .answer?.toString(),
      );
      return said.join("\n");
    };
    const first = await run();
    for (let time = 0; time < 1000; time++) expect(await run()).toBe(first);
  });
});
