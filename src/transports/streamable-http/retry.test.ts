import { describe, expect, it } from "vitest";

import { exchangeWith, valueOf } from "../../../test/support/exchange.ts";
import { requestOf } from "../../../test/support/messages.ts";
import { ReplayableRequest } from "./retry.ts";

describe("an exchange that is kept to be sent again", () => {
  it("says the same as before, in characters of any kind, with the headers that are passed on", () => {
    const headers = { "x-tenant": "a" };
    const exchange = exchangeWith(
      requestOf("initialize", { clientInfo: { name: "ünï ☃ \u{1F600}" }, capabilities: {} }, "first"),
      { transport: { type: "http", method: "POST", path: "/mcp", headers } },
    );
    const again = new ReplayableRequest(exchange).toExchange();
    expect(valueOf(again.message)).toEqual(valueOf(exchange.message));
    expect(again).toMatchObject({ id: exchange.id, principal: exchange.principal, transport: { headers } });
  });

  it("keeps nothing of what it came with: no stream, no cancel, no tracking", () => {
    const exchange = exchangeWith(requestOf("initialize", {}));
    exchange.tracking.entry = {};
    const again = new ReplayableRequest(exchange).toExchange();
    exchange.cancellation.cancel("client-gone");
    expect(again.reply).toBeUndefined();
    expect(again.tracking.entry).toBeUndefined();
    expect(again.cancellation.isCancelled).toBe(false);
    expect(again.message.bytes).not.toBe(exchange.message.bytes);
  });
});
