import { describe, expect, it } from "vitest";

import { exchangeWith, messageFrom } from "../../../../test/support/exchange.ts";
import { requestOf } from "../../../../test/support/messages.ts";
import { ByteBudget } from "../../../core/byte-budget.ts";
import type { Exchange } from "../../../core/exchange.ts";
import { GatewayError } from "../../../errors.ts";
import { createByteGuard } from "./byte-guard.ts";

const large = requestOf("tools/call", { name: "x", arguments: { pad: "x".repeat(30_000) } });
const answer = { message: messageFrom(`{"jsonrpc":"2.0","id":1,"result":{"pad":"${"x".repeat(30_000)}"}}`) };
const http = { type: "http", method: "POST", path: "/mcp", headers: {} } as const;

function guardWith(perPrincipal: number) {
  const budget = new ByteBudget({ total: 1e6, perPrincipal });
  const found: string[] = [];
  const guard = createByteGuard(budget, { found: ({ code }) => found.push(code) });
  return { guard, budget, found };
}

describe("the bytes of messages in transit", () => {
  it.each<{ facts: Partial<Exchange>; counts: boolean }>([
    { facts: { transport: { type: "in-process" } }, counts: true },
    { facts: { transport: { type: "sse", stream: "one" } }, counts: true },
    // With the body that it came in.
    { facts: { transport: http }, counts: false },
    { facts: { transport: http, direction: "server-to-client" }, counts: true },
  ])("are counted until the answer: $facts $counts", ({ facts, counts }) => {
    const { guard, budget } = guardWith(100_000);
    for (const end of ["answered", "failed"]) {
      const exchange = exchangeWith(large, facts);
      expect(guard.enter(exchange)).toBeUndefined();
      expect(budget.size > 30_000).toBe(counts);
      if (end === "answered") guard.answered(exchange, { message: undefined });
      else guard.failed(exchange, new GatewayError("cancelled", "gone"));
      expect(budget.size).toBe(0);
    }
  });

  it("are refused over the limit of their caller, and that is reported", () => {
    const { guard, found } = guardWith(50_000);
    const first = exchangeWith(large);
    expect(guard.enter(first)).toBeUndefined();
    expect(guard.enter(exchangeWith(large))).toMatchObject({ code: "rate_limited" });
    expect(found).toEqual(["bytes.exceeded"]);
    guard.failed(first, new GatewayError("cancelled", "gone"));
    expect(guard.enter(exchangeWith(large))).toBeUndefined();
  });

  it("of an answer need room as well; without it the caller learns that its call may have been executed", () => {
    const { guard, budget, found } = guardWith(50_000);
    const exchange = exchangeWith(requestOf("tools/call", { name: "x" }));
    expect(guard.answered(exchange, answer)).toBe(answer);
    const unread = budget.hold(exchange.principal.id);
    unread.resize(30_000);
    expect(() => guard.answered(exchange, answer)).toThrow(/may have executed/u);
    expect(found).toEqual(["bytes.exceeded"]);
    // What a client answers to a server goes to the server.
    expect(guard.answered(exchangeWith(large, { direction: "server-to-client" }), answer)).toBe(answer);
  });
});
