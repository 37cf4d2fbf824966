import { describe, expect, it } from "vitest";

import { errorTable, GatewayError, type ErrorCode } from "./errors.ts";

// The wire numbers a peer relies on, written out so that a slip in the table is seen:
// [code, HTTP, HTTP instead, JSON-RPC, retryable].
const expected: readonly (readonly [ErrorCode, number | undefined, number | undefined, number | undefined, boolean])[] =
  [
    ["parse_error", 400, undefined, -32700, false],
    ["invalid_message", 400, undefined, -32600, false],
    ["header_mismatch", 400, undefined, -32020, false],
    ["missing_capability", 400, undefined, -32021, false],
    ["unsupported_revision", 400, undefined, -32022, false],
    ["method_not_found", 200, 404, -32601, false],
    ["invalid_params", 200, 400, -32602, false],
    ["bad_request", 400, undefined, -32000, false],
    ["tls_failed", undefined, undefined, undefined, false],
    ["host_not_allowed", 403, undefined, -32000, false],
    ["origin_not_allowed", 403, undefined, -32000, false],
    ["method_not_allowed", 405, undefined, -32000, false],
    ["not_acceptable", 406, undefined, -32000, false],
    ["stream_conflict", 409, undefined, -32000, false],
    ["unsupported_media_type", 415, undefined, -32000, false],
    ["unauthenticated", 401, undefined, 4010, false],
    ["insufficient_scope", 403, undefined, 4031, false],
    ["policy_denied", 200, 403, 4030, false],
    ["policy_unavailable", 503, undefined, 5030, true],
    ["forbidden", 403, undefined, undefined, false],
    ["not_found", 404, undefined, undefined, false],
    ["session_missing", 400, undefined, -32000, false],
    ["session_unknown", 404, undefined, -32001, false],
    ["too_large", 413, undefined, -32000, false],
    ["rate_limited", 429, undefined, 4290, true],
    ["overloaded", 503, undefined, 4291, true],
    ["shutting_down", 503, undefined, 5031, true],
    ["upstream_unreachable", 502, undefined, -32603, true],
    ["upstream_invalid", 502, undefined, -32603, false],
    ["upstream_timeout", 504, undefined, -32603, true],
    ["cancelled", undefined, undefined, undefined, false],
    ["store_failed", 503, undefined, -32603, true],
    ["config_invalid", undefined, undefined, undefined, false],
    ["internal", 500, undefined, -32603, false],
  ];

describe("the error table", () => {
  it("has exactly the documented codes", () => {
    expect(Object.keys(errorTable)).toEqual(expected.map(([code]) => code));
  });

  it.each(expected)("answers %s with its documented numbers", (code, http, httpInstead, jsonrpc, retryable) => {
    const facts = errorTable[code];
    expect(facts.http).toBe(http);
    expect(facts.alternateHttp?.status).toBe(httpInstead);
    expect(facts.jsonrpc).toBe(jsonrpc);
    expect(facts.retryable).toBe(retryable);
  });

  it.each(Object.entries(errorTable))("describes %s in a full sentence", (_code, facts) => {
    expect(facts.description).toMatch(/^[A-Z].*\.$/u);
  });

  it("keeps decisions out of the reserved JSON-RPC range and unique", () => {
    const decisions = Object.values(errorTable).flatMap(({ jsonrpc }) =>
      jsonrpc !== undefined && (jsonrpc > -32000 || jsonrpc < -32768) ? [jsonrpc] : [],
    );
    expect(decisions).toEqual([...new Set(decisions)]);
    expect(decisions.every((code) => code > 0)).toBe(true);
  });

  it("logs a cancelled request at debug level and only faults of ours as errors", () => {
    expect(errorTable.cancelled.level).toBe("debug");
    const errors = Object.entries(errorTable).filter(([, { level }]) => level === "error");
    expect(errors.map(([code]) => code)).toEqual(["store_failed", "config_invalid", "internal"]);
  });

  it("ends the process with exit code 2 for a wrong configuration and for nothing else", () => {
    const exits = Object.entries(errorTable).filter(([, { exitCode }]) => exitCode !== undefined);
    expect(exits.map(([code, { exitCode }]) => [code, exitCode])).toEqual([["config_invalid", 2]]);
  });
});

describe("GatewayError", () => {
  it("carries code, message, details and cause, and finds its row", () => {
    const cause = new Error("socket hang up");
    const error = new GatewayError("upstream_unreachable", "harbor is not reachable", {
      details: { upstream: "harbor" },
      cause,
    });
    expect(error).toBeInstanceOf(Error);
    expect(error.name).toBe("GatewayError");
    expect(error.message).toBe("harbor is not reachable");
    expect(error.details).toEqual({ upstream: "harbor" });
    expect(error.cause).toBe(cause);
    expect(error.facts).toBe(errorTable.upstream_unreachable);
  });

  it("has no cause and no details unless given", () => {
    const error = new GatewayError("too_large", "11 MB, 10 MB allowed");
    expect("cause" in error).toBe(false);
    expect(error.details).toBeUndefined();
  });

  it("passes a GatewayError through unchanged", () => {
    const error = new GatewayError("policy_denied", "not after dark");
    expect(GatewayError.from(error)).toBe(error);
  });

  it("takes an abort for a cancellation", () => {
    const abort = AbortSignal.abort().reason as unknown;
    expect(GatewayError.from(abort)).toMatchObject({ code: "cancelled", cause: abort });
  });

  it.each([[new TypeError("password is hunter2")], ["a string"], [undefined], [null], [{ code: "policy_denied" }]])(
    "hides the message of anything else: %o",
    (thrown) => {
      const error = GatewayError.from(thrown);
      expect(error.code).toBe("internal");
      expect(error.message).toBe("internal error");
      expect(error.cause).toBe(thrown);
    },
  );
});
