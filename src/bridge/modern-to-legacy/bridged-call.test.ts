import { describe, expect, it } from "vitest";
import { exchangeWith, messageFrom, valueOf } from "../../../test/support/exchange.ts";
import { createFakeTime, settled } from "../../../test/support/fake-time.ts";
import { Cancellation } from "../../core/cancellation.ts";
import type { Exchange } from "../../core/exchange.ts";
import { GatewayError } from "../../errors.ts";
import type { Message, RequestMessage } from "../../protocol/message.ts";
import { BridgedCall, type CallSuspender } from "./bridged-call.ts";
import { CompactRequest } from "./compact-request.ts";

const context = { type: "in-process" } as const;

function request(body: object): RequestMessage {
  const message = messageFrom(JSON.stringify({ jsonrpc: "2.0", ...body }));
  if (message.kind !== "request") throw new Error("not a request");
  return message;
}

/** A `tools/call` of a client that can answer forms. */
function toolCall(id: number, more: object = {}): RequestMessage {
  const meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": { elicitation: { form: {} } },
    progressToken: `token-${id}`,
  };
  return request({ id, method: "tools/call", params: { name: "echo", ...more, _meta: meta } });
}

const elicitation = request({
  id: "q",
  method: "elicitation/create",
  params: { mode: "form", message: "Sure?", requestedSchema: { type: "object" } },
});
const answers = { inputResponses: { "question-1": { action: "accept" } } };
const progress = (step: number): Message =>
  messageFrom(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"up","progress":${step}}}`);
const result = messageFrom('{"jsonrpc":"2.0","id":"up","result":{"content":[]}}');

function openCall(first = toolCall(1), suspend: CallSuspender["suspend"] = () => "state") {
  const time = createFakeTime();
  const released: BridgedCall[] = [];
  const delivered: unknown[] = [];
  const suspender: CallSuspender = {
    limits: { gatherMs: 5, inputRequests: 2, bufferedNotifications: 2, bufferedBytes: 1024 },
    setTimer: time.setTimer,
    suspend,
    release: (call) => released.push(call),
  };
  const call = new BridgedCall(
    suspender,
    (message) => {
      delivered.push(valueOf(message));
    },
    first,
  );
  const attach = (message: RequestMessage): Exchange =>
    exchangeWith(message, { revision: "2026-07-28", era: "modern", cancellation: new Cancellation() });
  const exchange = attach(first);
  const reply = call.start(exchange);
  reply.catch(() => {});
  return { call, time, released, delivered, exchange, reply, attach };
}

describe("a bridged call", () => {
  it("answers the client with the server's result in its modern form", async () => {
    const { call, reply } = openCall();
    call.serverInfo = '{"name":"old","version":"2"}';
    call.settle(result);
    expect(valueOf((await reply).message)).toMatchObject({
      id: 1,
      result: { resultType: "complete", _meta: { "io.modelcontextprotocol/serverInfo": { name: "old" } } },
    });
    expect(call.isOver).toBe(true);
  });

  it("rejects with the failure of the server", async () => {
    const { call, reply } = openCall();
    call.settle(new GatewayError("upstream_unreachable", "gone"));
    await expect(reply).rejects.toMatchObject({ code: "upstream_unreachable" });
  });

  it("asks for input in one round, and passes the answers of the retry on", async () => {
    const { call, time, reply, attach } = openCall();
    const asked = call.requestInput(exchangeWith(elicitation), elicitation);
    await time.advance(5);
    expect(valueOf((await reply).message)).toMatchObject({
      id: 1,
      result: {
        resultType: "input_required",
        requestState: "state",
        inputRequests: { "question-1": { method: "elicitation/create" } },
      },
    });
    const retry = toolCall(2, answers);
    const second = call.resume(attach(retry), retry);
    expect(valueOf((await asked).message)).toMatchObject({ id: "q", result: { action: "accept" } });
    call.settle(result);
    expect(valueOf((await second).message)).toMatchObject({ id: 2, result: { resultType: "complete" } });
  });

  it("lets go of the client's request while it is suspended", async () => {
    const { call, time, exchange } = openCall();
    exchange.tracking.entry = "entry";
    const asked = CompactRequest.from(elicitation);
    void call.requestInput(exchangeWith(asked), asked);
    expect(call.relatedExchange.tracking.entry).toBe("entry");
    await time.advance(5);
    const { message, original, tracking, cancellation } = call.relatedExchange;
    expect([message instanceof CompactRequest, original === message, tracking.entry]).toEqual([true, true, undefined]);
    expect(cancellation).toBe(call.cancellation);
    // The request that was answered ends, which must not cancel the call.
    exchange.cancellation.cancel("client-gone");
    expect(call.isOver).toBe(false);
  });

  it("delivers what it missed, the newest within bounds, before the outcome", async () => {
    const { call, time, delivered, attach } = openCall();
    void call.requestInput(exchangeWith(elicitation), elicitation);
    await time.advance(5);
    for (const step of [1, 2, 3]) void call.notify(progress(step), context);
    call.settle(result);
    expect(delivered).toEqual([]);
    const retry = toolCall(2, answers);
    const reply = await call.resume(attach(retry), retry);
    expect(delivered).toMatchObject([
      { params: { progressToken: "token-2", progress: 2 } },
      { params: { progressToken: "token-2", progress: 3 } },
    ]);
    expect(valueOf(reply.message)).toMatchObject({ id: 2 });
  });

  it("delivers notifications at once while its client waits, and only those it wants", async () => {
    const { call, delivered } = openCall();
    await call.notify(progress(1), context);
    await call.notify(
      messageFrom('{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}'),
      context,
    );
    expect(delivered).toMatchObject([{ params: { progressToken: "token-1", progress: 1 } }]);
  });

  it("cancels the work upstream when its client goes away", async () => {
    const { call, exchange, reply, released } = openCall();
    const asked = call.requestInput(exchangeWith(elicitation), elicitation);
    exchange.cancellation.cancel("cancelled");
    await expect(reply).rejects.toMatchObject({ code: "cancelled" });
    await expect(asked).rejects.toMatchObject({ code: "cancelled" });
    expect([call.cancellation.reason, call.isOver, released]).toEqual(["client-gone", true, [call]]);
  });

  it("fails when there is no room to suspend it", async () => {
    const { call, time, reply } = openCall(toolCall(1), () => new GatewayError("overloaded", "full"));
    void call.requestInput(exchangeWith(elicitation), elicitation).catch(() => {});
    await time.advance(5);
    await expect(reply).rejects.toMatchObject({ code: "overloaded" });
    expect(call.cancellation.isCancelled).toBe(true);
  });

  it("drops an input request that the server cancels", async () => {
    const { call, time, reply } = openCall();
    const asked = call.requestInput(exchangeWith(elicitation), elicitation);
    call.cancelInputRequest(elicitation.id);
    await expect(asked).rejects.toMatchObject({ code: "cancelled" });
    await time.advance(5);
    call.settle(result);
    expect(valueOf((await reply).message)).toMatchObject({ result: { resultType: "complete" } });
  });

  it.each([
    ["of a method that is not an input request", request({ id: 9, method: "tasks/list" }), toolCall(1)],
    ["that needs a capability the client lacks", request({ id: 9, method: "roots/list" }), toolCall(1)],
    ["within a request that allows none", elicitation, request({ id: 1, method: "tools/list", params: {} })],
  ])("refuses a request %s", async (_which, asked, first) => {
    const { call } = openCall(first);
    await expect(call.requestInput(exchangeWith(asked), asked)).rejects.toMatchObject({ code: "method_not_found" });
  });

  it("refuses input requests beyond its limit", async () => {
    const { call } = openCall();
    for (const id of [1, 2]) {
      const asked = request({ id, method: "elicitation/create", params: { message: "?", requestedSchema: {} } });
      void call.requestInput(exchangeWith(asked), asked).catch(() => {});
    }
    await expect(call.requestInput(exchangeWith(elicitation), elicitation)).rejects.toMatchObject({
      code: "overloaded",
    });
    await settled();
  });
});
