import { describe, expect, it } from "vitest";

import {
  envelopeOf,
  headersOf,
  messageOf,
  notificationOf,
  requestOf,
  resultOf,
} from "../../../test/support/messages.ts";
import type { Diagnostic } from "../diagnostics.ts";
import {
  checkAnswer,
  checkCapability,
  checkIdReuse,
  checkInputRequired,
  checkMirroredHeaders,
  checkProgress,
  warnUnknownRevision,
} from "./semantic.ts";

const codes = (diagnostics: readonly Diagnostic[]) => diagnostics.map(({ code }) => code);

describe("ids", () => {
  const reuse = (isInFlight: boolean, wasUsed: boolean, revision: "2025-11-25" | "2026-07-28") =>
    codes(checkIdReuse(requestOf("tools/list"), { isInFlight, wasUsed }, revision));

  it("[SC-028] must not be reused while in flight", () => {
    expect(reuse(true, true, "2025-11-25")).toEqual(["id.in-flight"]);
    expect(reuse(true, false, "2026-07-28")).toEqual(["id.in-flight"]);
  });

  it("[SC-028] must not be reused in a legacy session, but may be in the modern era", () => {
    expect(reuse(false, true, "2025-11-25")).toEqual(["id.reused"]);
    expect(reuse(false, true, "2026-07-28")).toEqual([]);
    expect(reuse(false, false, "2025-11-25")).toEqual([]);
  });
});

describe("responses", () => {
  it.each([
    ["pending", []],
    ["answered", ["response.duplicate"]],
    ["given-up", ["response.late"]],
    ["none", ["response.orphan"]],
  ] as const)("[SC-028] to a request that is %s give %j", (state, expected) => {
    expect(codes(checkAnswer(resultOf({}), state))).toEqual(expected);
  });

  it("[SC-028] without an id are reported", () => {
    const error = messageOf({ jsonrpc: "2.0", error: { code: -32700, message: "unreadable" } });
    if (error.kind !== "error") throw new Error("not an error");
    expect(codes(checkAnswer(error, "none"))).toEqual(["response.unaddressed"]);
  });
});

describe("progress", () => {
  const progress = (value: unknown, last: number | undefined, token = {}) =>
    codes(
      checkProgress(notificationOf("notifications/progress", { progressToken: "p", progress: value }), {
        isKnown: true,
        hasEnded: false,
        last,
        ...token,
      }),
    );

  it("[SC-028] must increase", () => {
    expect(progress(3, 2.5)).toEqual([]);
    expect(progress(0, undefined)).toEqual([]);
    expect(progress(3, 3)).toEqual(["progress.not-rising"]);
    expect(progress(-1, 3)).toEqual(["progress.not-rising"]);
  });

  it("[SC-028] belongs to a request that is known and running", () => {
    expect(progress(1, undefined, { isKnown: false })).toEqual(["progress.unknown-token"]);
    expect(progress(1, undefined, { hasEnded: true })).toEqual(["progress.after-end"]);
  });

  it("leaves values of other types to the schema", () => {
    expect(progress("7", 9)).toEqual([]);
  });
});

describe("headers", () => {
  it("[SC-028] are all compared with the body, not only the first", () => {
    const message = requestOf("tools/call", { name: "weigh", arguments: { yard: "n" }, _meta: envelopeOf() });
    const yard = { header: "Mcp-Param-Yard", path: ["yard"], type: "string" } as const;
    const lines = [
      ["MCP-Protocol-Version", "2025-11-25"],
      ["Mcp-Method", "tools/list"],
      ["Mcp-Name", "lift"],
    ] as const;
    const found = checkMirroredHeaders(message, headersOf(...lines), [yard]);
    expect(found.map(({ data }) => data)).toEqual([
      { header: "MCP-Protocol-Version", problem: "different" },
      { header: "Mcp-Method", problem: "different" },
      { header: "Mcp-Name", problem: "different" },
      { header: "Mcp-Param-Yard", problem: "missing" },
    ]);
    const right = [
      ["mcp-protocol-version", "2026-07-28"],
      ["mcp-method", "tools/call"],
      ["mcp-name", "weigh"],
    ] as const;
    expect(checkMirroredHeaders(message, headersOf(...right))).toEqual([]);
  });
});

describe("capabilities", () => {
  it("[SC-028] must be declared by the receiver of the method", () => {
    expect(codes(checkCapability(requestOf("tools/list"), {}, "2025-11-25"))).toEqual(["capability.missing"]);
    expect(checkCapability(requestOf("tools/list"), { tools: {} }, "2025-11-25")).toEqual([]);
    expect(checkCapability(requestOf("ping"), {}, "2025-11-25")).toEqual([]);
  });

  it("[SC-028] are checked down to the mode of an elicitation and the tools of sampling", () => {
    const url = requestOf("elicitation/create", {
      mode: "url",
      message: "m",
      url: "https://x",
      elicitationId: "e",
    });
    const form = requestOf("elicitation/create", { message: "m" });
    expect(checkCapability(form, { elicitation: {} }, "2025-11-25")).toEqual([]);
    expect(checkCapability(url, { elicitation: {} }, "2025-11-25")).toMatchObject([
      { data: { requiredCapabilities: { elicitation: { url: {} } } } },
    ]);
    expect(codes(checkCapability(form, { elicitation: { url: {} } }, "2025-11-25"))).toEqual(["capability.missing"]);
    const sampling = requestOf("sampling/createMessage", { tools: [] });
    expect(codes(checkCapability(sampling, { sampling: {} }, "2025-11-25"))).toEqual(["capability.missing"]);
    expect(checkCapability(sampling, { sampling: { tools: {} } }, "2025-11-25")).toEqual([]);
  });

  it("are not asked of revisions that could not declare them", () => {
    const complete = requestOf("completion/complete");
    expect(checkCapability(complete, {}, "2024-11-05")).toEqual([]);
    expect(codes(checkCapability(complete, {}, "2025-03-26"))).toEqual(["capability.missing"]);
  });
});

describe("results that ask for input", () => {
  const ask = (result: Record<string, unknown>, method = "tools/call", capabilities = {}) =>
    codes(checkInputRequired(resultOf({ resultType: "input_required", ...result }), { method, capabilities }));
  const berth = { method: "elicitation/create", params: { mode: "form", message: "Which berth?" } };

  it("[SC-028] come from three methods only", () => {
    expect(ask({ requestState: "s" }, "tools/list")).toEqual(["input.not-allowed"]);
    for (const method of ["tools/call", "prompts/get", "resources/read"]) {
      expect(ask({ requestState: "s" }, method)).toEqual([]);
    }
  });

  it("[SC-028] have input requests or a state", () => {
    expect(ask({})).toEqual(["input.empty"]);
  });

  it("[SC-028] need a capability that the client declared", () => {
    expect(ask({ inputRequests: { berth } })).toEqual(["input.capability"]);
    expect(ask({ inputRequests: { berth } }, "tools/call", { elicitation: {} })).toEqual([]);
    expect(ask({ inputRequests: { a: { method: "tools/call" }, b: 5 } })).toEqual(["input.method", "input.method"]);
  });

  it("are the only ones looked at", () => {
    expect(checkInputRequired(resultOf({ resultType: "complete" }), { method: "x", capabilities: {} })).toEqual([]);
  });
});

describe("unknown revisions", () => {
  it("[SC-007] are reported once in a scope", () => {
    const warned = new Set<string>();
    expect(codes(warnUnknownRevision("2031-01-01", warned))).toEqual(["revision.unknown"]);
    warned.add("2031-01-01");
    expect(warnUnknownRevision("2031-01-01", warned)).toEqual([]);
    expect(codes(warnUnknownRevision("2032-01-01", warned))).toEqual(["revision.unknown"]);
  });
});
