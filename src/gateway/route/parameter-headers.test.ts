import { describe, expect, it } from "vitest";
import { exchangeWith, messageFrom } from "../../../test/support/exchange.ts";
import type { Exchange } from "../../core/exchange.ts";
import type { Reply } from "../../core/pipeline.ts";
import { idFrom } from "../../protocol/message.ts";
import { errorMessage, resultMessage } from "../../core/reply.ts";
import { createToolHeaders } from "./parameter-headers.ts";

const call = (startedAt: number): Exchange => ({
  ...exchangeWith(messageFrom('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"other","_meta":{}}}')),
  timing: { startedAt, wallTime: 0 },
});

const list: Reply = {
  message: resultMessage(idFrom(1), '{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}'),
};

const unlimited = { setTimer: () => () => {}, quickMs: () => 0 };

describe("the table of header parameters", () => {
  it("knows a moment long that a tool is on no list", async () => {
    const tools = createToolHeaders(async () => list, unlimited);
    expect(tools.isFresh(call(0))).toBe(false);
    await tools.refresh(call(0));
    expect(tools.known(call(0).principal, "echo")).toEqual([]);
    expect(tools.known(call(0).principal, "other")).toBeUndefined();
    expect(tools.isFresh(call(999))).toBe(true);
    expect(tools.isFresh(call(1000))).toBe(false);
  });

  it("keeps what it knows where the list cannot be read, and does not ask at once again", async () => {
    const answers: Reply[] = [list, { message: errorMessage(idFrom(2), { code: -32603, message: "no" }) }];
    const tools = createToolHeaders(async () => answers.shift() ?? list, unlimited);
    await tools.refresh(call(0));
    await tools.refresh(call(5000));
    expect(tools.known(call(5000).principal, "echo")).toEqual([]);
    expect(tools.isFresh(call(5500))).toBe(true);
  });
});
