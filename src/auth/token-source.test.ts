import { describe, expect, it } from "vitest";

import { createFakeTime } from "../../test/support/fake-time.ts";
import { GatewayError } from "../errors.ts";
import { createTokenSource } from "./token-source.ts";

function setUp() {
  const time = createFakeTime();
  let issued = 0;
  const state: { failure: GatewayError | undefined } = { failure: undefined };
  const source = createTokenSource(async () => {
    issued += 1;
    if (state.failure !== undefined) throw state.failure;
    return { accessToken: `token-${issued}`, lifetimeMs: 100_000 };
  }, time.clock);
  return { time, source, state, issued: () => issued };
}

describe("a token of the gateway's own", () => {
  it("is obtained when it is first needed, once for all who wait, and then at hand", async () => {
    const { source, issued } = setUp();
    expect(issued()).toBe(0);
    expect(await Promise.all([source.get(), source.get()])).toEqual(["token-1", "token-1"]);
    expect(source.get()).toBe("token-1");
    expect(issued()).toBe(1);
  });

  it("is renewed before it expires, while the old one serves", async () => {
    const { source, time, issued } = setUp();
    await source.get();
    await time.advance(79_999);
    expect(source.get()).toBe("token-1");
    expect(issued()).toBe(1);
    await time.advance(1);
    expect(source.get()).toBe("token-1");
    await time.advance(0);
    expect(source.get()).toBe("token-2");
    expect(issued()).toBe(2);
  });

  it("outlives a renewal that fails, but not its own time", async () => {
    const { source, time, state } = setUp();
    await source.get();
    state.failure = new GatewayError("upstream_unreachable", "away");
    await time.advance(90_000);
    expect(source.get()).toBe("token-1");
    await time.advance(10_000);
    await expect(source.get()).rejects.toMatchObject({ code: "upstream_unreachable" });
  });

  it("is not asked for again at once when that failed", async () => {
    const { source, time, state, issued } = setUp();
    state.failure = new GatewayError("upstream_unreachable", "away");
    await expect(source.get()).rejects.toThrow("away");
    await expect(source.get()).rejects.toThrow("away");
    expect(issued()).toBe(1);
    state.failure = undefined;
    await time.advance(1000);
    expect(await source.get()).toBe("token-2");
  });

  it("is replaced when it was refused, unless it was just issued", async () => {
    const { source, time } = setUp();
    await source.get();
    expect(source.invalidate("token-1")).toBe(false);
    await time.advance(5000);
    expect(source.invalidate("token-1")).toBe(true);
    expect(await source.get()).toBe("token-2");
    // Somebody else has replaced it meanwhile: the new one is worth a try.
    expect(source.invalidate("token-1")).toBe(true);
    expect(source.get()).toBe("token-2");
  });
});
