import { describe, expect, it } from "vitest";

import { createFakeTime } from "../../../../test/support/fake-time.ts";
import { exchangeWith, messageFrom } from "../../../../test/support/exchange.ts";
import { requestOf } from "../../../../test/support/messages.ts";
import { principalNamed } from "../../../../test/support/principals.ts";
import type { Principal } from "../../../core/exchange.ts";
import { createStateOwners } from "./state-owners.ts";

const [ann, bob] = [principalNamed("ann"), principalNamed("bob")];

function setUp() {
  const time = createFakeTime();
  const guard = createStateOwners(time.clock);
  return {
    time,
    issue: (principal: Principal, state: string, method = "tools/call") => {
      const call = exchangeWith(requestOf(method, { name: "moor" }), { principal });
      expect(guard.enter(call)).toBeUndefined();
      const result = { resultType: "input_required", requestState: state };
      const reply = { message: messageFrom(JSON.stringify({ jsonrpc: "2.0", id: 1, result })) };
      expect(guard.answered(call, reply)).toBe(reply);
    },
    retry: (principal: Principal, requestState: unknown, method = "tools/call", route = "other") =>
      guard.enter(exchangeWith(requestOf(method, { name: "moor", requestState }), { principal, route })),
  };
}

describe("the state that a server gave a caller to continue with", () => {
  it.each(["tools/call", "prompts/get", "resources/read"])("is good for that caller alone, in %s", (method) => {
    const { issue, retry } = setUp();
    issue(ann, "v1.k9.mac");
    for (let round = 0; round < 2; round++) {
      expect(retry(bob, "v1.k9.mac", method)).toMatchObject({
        code: "invalid_params",
        details: { requestState: "broken" },
      });
      expect(retry(ann, "v1.k9.mac", method)).toBeUndefined();
    }
  });

  it.each(["", "v1.k9.ma", "v1.k9.mac ", "V1.k9.mac", 7, null, { a: 1 }])(
    "is the server's to judge if it is %j",
    (state) => {
      const { issue, retry } = setUp();
      issue(ann, "v1.k9.mac");
      expect(retry(bob, state)).toBeUndefined();
    },
  );

  it("is found however its text is escaped", () => {
    const { issue, retry } = setUp();
    issue(ann, "a/b");
    expect(retry(bob, "a\u002fb")).toMatchObject({ code: "invalid_params" });
  });

  it("is good for all who got it, where the server gives everybody the same", () => {
    const { issue, retry } = setUp();
    issue(ann, "later-1");
    issue(bob, "later-1");
    issue(ann, "later-1");
    expect([retry(ann, "later-1"), retry(bob, "later-1")]).toEqual([undefined, undefined]);
  });

  it("is forgotten after a day", async () => {
    const { issue, retry, time } = setUp();
    issue(ann, "old");
    await time.advance(24 * 60 * 60_000);
    expect(retry(bob, "old")).toBeUndefined();
  });
});
