import { describe, expect, it } from "vitest";

import { proceed } from "./action.ts";
import { defineInterceptor } from "./interceptor.ts";

const onMessage = proceed;

describe("defineInterceptor", () => {
  it("[SC-066] enforces and fails closed within two seconds unless told otherwise", () => {
    expect(defineInterceptor({ name: "plain", onMessage })).toEqual({
      name: "plain",
      priority: 0,
      mode: "enforce",
      failOpen: false,
      timeoutMs: 2000,
      phase: "both",
      directions: ["client-to-server", "server-to-client"],
      onMessage,
    });
  });

  it("keeps what it is given", () => {
    const given = {
      name: "own",
      priority: -10,
      mode: "audit",
      failOpen: true,
      timeoutMs: 50,
      phase: "request",
      directions: ["client-to-server"],
      methods: ["tools/*"],
      onMessage,
    } as const;
    expect(defineInterceptor(given)).toEqual(given);
  });

  it.each([
    [{ name: "" }],
    [{ name: "x", priority: Number.NaN }],
    [{ name: "x", timeoutMs: 0 }],
    [{ name: "x", timeoutMs: -1 }],
    [{ name: "x", timeoutMs: Number.POSITIVE_INFINITY }],
    [{ name: "x", timeoutMs: 2 ** 31 }],
  ])("refuses %o", (options) => {
    expect(() => defineInterceptor({ ...options, onMessage })).toThrow(
      expect.objectContaining({ code: "config_invalid" }) as Error,
    );
  });
});
