import { describe, expect, it } from "vitest";

import { type ErrorCode, errorTable } from "../errors.ts";
import { outcomeOfCode } from "./outcomes.ts";

const codes = Object.keys(errorTable) as ErrorCode[];

describe("outcomeOfCode", () => {
  it.each(codes.filter((code) => errorTable[code].jsonrpc === -32603))(
    "[SC-049] says that %s failed: it is the gateway's or the upstream's fault",
    (code) => {
      expect(outcomeOfCode(code)).toBe("failed");
    },
  );

  it.each(codes.filter((code) => Math.floor((errorTable[code].http ?? 0) / 100) === 4))(
    "[SC-049] says that %s is a refusal: the caller lacks something, or sent something wrong",
    (code) => {
      expect(outcomeOfCode(code)).toBe("refused");
    },
  );

  it.each(["method_not_found", "invalid_params", "policy_denied", "policy_unavailable", "overloaded", "shutting_down"])(
    "[SC-049] says that %s is a refusal, whatever its HTTP status",
    (code) => {
      expect(outcomeOfCode(code)).toBe("refused");
    },
  );

  it("keeps cancelled apart, and takes codes that it does not know for failures", () => {
    expect(outcomeOfCode("cancelled")).toBe("cancelled");
    expect(outcomeOfCode("constructor")).toBe("failed");
  });
});
