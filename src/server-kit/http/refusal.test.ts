import { describe, expect, it } from "vitest";

import { httpRefusals, httpRefusal, type HttpRefusalCode } from "./refusal.ts";

const codes = Object.keys(httpRefusals) as HttpRefusalCode[];

describe("refusals", () => {
  it.each(codes)("[KO-141] answers %s as JSON with its stable code and status", async (code) => {
    const response = httpRefusal(code);
    expect(response.status).toBe(httpRefusals[code].status);
    expect(response.headers.get("content-type")).toBe("application/json");
    expect(await response.json()).toEqual({ error: code, message: httpRefusals[code].message });
  });

  it("adds reason, id and headers where they are given", async () => {
    const response = httpRefusal("internal_error", { reason: "x", id: "1", headers: { "x-y": "z" } });
    expect(await response.json()).toMatchObject({ error: "internal_error", reason: "x", id: "1" });
    expect(response.headers.get("x-y")).toBe("z");
  });

  it("says in whole seconds when to come back, never less than one", () => {
    expect(httpRefusal("rate_limited", { retryAfterSeconds: 0.2 }).headers.get("retry-after")).toBe("1");
    expect(httpRefusal("rate_limited", { retryAfterSeconds: 2.1 }).headers.get("retry-after")).toBe("3");
    expect(httpRefusal("shutting_down").headers.get("retry-after")).toBe("5");
    expect(httpRefusal("not_found").headers.has("retry-after")).toBe(false);
  });
});
