import { describe, expect, it } from "vitest";

import { refusals, refuse, type RefusalCode } from "./refusals.ts";

const codes = Object.keys(refusals) as RefusalCode[];

describe("refusals", () => {
  it.each(codes)("[KO-141] answers %s as JSON with its stable code and status", async (code) => {
    const response = refuse(code);
    expect(response.status).toBe(refusals[code].status);
    expect(response.headers.get("content-type")).toBe("application/json");
    expect(await response.json()).toEqual({ error: code, message: refusals[code].message });
  });

  it("adds reason, id and headers where they are given", async () => {
    const response = refuse("internal_error", { reason: "x", id: "1", headers: { "x-y": "z" } });
    expect(await response.json()).toMatchObject({ error: "internal_error", reason: "x", id: "1" });
    expect(response.headers.get("x-y")).toBe("z");
  });

  it("says in whole seconds when to come back, never less than one", () => {
    expect(refuse("rate_limited", { retryAfterSeconds: 0.2 }).headers.get("retry-after")).toBe("1");
    expect(refuse("rate_limited", { retryAfterSeconds: 2.1 }).headers.get("retry-after")).toBe("3");
    expect(refuse("shutting_down").headers.get("retry-after")).toBe("5");
    expect(refuse("not_found").headers.has("retry-after")).toBe(false);
  });
});
