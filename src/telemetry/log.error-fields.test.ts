import { describe, expect, it } from "vitest";

import { GatewayError } from "../errors.ts";
import { errorFields } from "./log.ts";

describe("the log fields of an error", () => {
  it("are its code and message", () => {
    expect(errorFields(new GatewayError("too_large", "11 MB, allowed are 10"))).toEqual({
      error: "too_large",
      detail: "11 MB, allowed are 10",
    });
  });

  it("name the cause, which the peer never sees", () => {
    const cause = Object.assign(new Error("connect refused"), { code: "ECONNREFUSED" });
    expect(errorFields(new GatewayError("upstream_unreachable", "not reached", { cause }))).toEqual({
      error: "upstream_unreachable",
      detail: "not reached",
      cause: "Error: connect refused (ECONNREFUSED)",
    });
  });

  it("have the stack where it is a bug of ours", () => {
    const bug = new TypeError("x is undefined");
    const fields = errorFields(GatewayError.from(bug));
    expect(fields["error"]).toBe("internal");
    expect(fields["stack"]).toBe(bug.stack);
  });
});
