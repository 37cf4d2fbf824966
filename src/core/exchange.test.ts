import { expect, expectTypeOf, it } from "vitest";

import { messageFrom } from "../../test/support/exchange.ts";
import { Cancellation } from "./cancellation.ts";
import { anonymous, createExchange, withMessage } from "./exchange.ts";
import type { Exchange, ExchangeOptions } from "./exchange.ts";

const request = messageFrom('{"jsonrpc":"2.0","id":1,"method":"tools/list"}');
const options: ExchangeOptions = {
  id: "a",
  message: request,
  route: "files",
  principal: anonymous,
  revision: "2026-07-28",
  transport: { type: "in-process" },
  timing: { startedAt: 1, wallTime: 2 },
};

it("[SC-043] has one of two directions: the compiler refuses to route any other", () => {
  expectTypeOf<Exchange["direction"]>().toEqualTypeOf<"client-to-server" | "server-to-client">();
  expectTypeOf<NonNullable<ExchangeOptions["direction"]>>().toEqualTypeOf<Exchange["direction"]>();
  expect(createExchange({ ...options, direction: "server-to-client" }).direction).toBe("server-to-client");
});

it("takes the era from the revision and the original from the message", () => {
  expect(createExchange(options)).toMatchObject({
    direction: "client-to-server",
    era: "modern",
    original: request,
    parent: undefined,
    tracking: { entry: undefined },
  });
});

it("derives an exchange from another, with tracking of its own", () => {
  const first = createExchange({ ...options, traceHeaders: { traceparent: "00-1-2-01" }, isUnpaced: true });
  first.tracking.entry = "tracked";
  const second = createExchange({ ...first, id: "a.1", revision: "2025-11-25" });
  expect(second).toMatchObject({ id: "a.1", era: "legacy", tracking: { entry: undefined }, isUnpaced: true });
  expect(second.cancellation).toBe(first.cancellation);
  expect(second.traceHeaders).toBe(first.traceHeaders);
});

it("keeps the original and the tracking when the message changes", () => {
  const first = createExchange(options);
  const changed = messageFrom('{"jsonrpc":"2.0","id":1,"method":"prompts/list"}');
  const second = withMessage(first, changed);
  expect(second.original).toBe(request);
  expect(second.tracking).toBe(first.tracking);
});

it("tells every listener of a cancellation once, and late ones at once", () => {
  const cancellation = new Cancellation();
  const heard: string[] = [];
  cancellation.onCancel((reason) => heard.push(`a ${reason}`));
  const off = cancellation.onCancel((reason) => heard.push(`b ${reason}`));
  off();
  cancellation.cancel("timeout");
  cancellation.cancel("shutdown");
  cancellation.onCancel((reason) => heard.push(`c ${reason}`));
  expect(heard).toEqual(["a timeout", "c timeout"]);
  expect(cancellation.signal.aborted).toBe(true);
});
