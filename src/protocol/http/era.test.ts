import { describe, expect, it } from "vitest";

import { envelopeOf, headersOf } from "../../../test/support/messages.ts";
import { classifyPost, classifyVerb, contentProblem, isJsonContentType, type ServedRevisions } from "./era.ts";
import { parse } from "../parse.ts";
import { type Revision, revisionNames } from "../revisions.ts";

const both: ServedRevisions = { eras: "both", supported: revisionNames.toReversed() };
const modernOnly: ServedRevisions = { eras: "modern", supported: ["2026-07-28"] };
const legacyOnly: ServedRevisions = { eras: "legacy", supported: revisionNames.slice(0, 4) };

interface Options {
  readonly version?: string;
  readonly serving?: ServedRevisions;
  readonly revision?: Revision | "unknown";
}

function classify(body: unknown, { version, serving = both, revision = "2025-03-26" }: Options = {}) {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  const outcome = parse(Buffer.from(text), { revision, mode: "enforce" });
  const header = version === undefined ? headersOf() : headersOf(["MCP-Protocol-Version", version]);
  return classifyPost(outcome, header, serving);
}

const request = (method: string, params: Record<string, unknown> = {}) => ({
  jsonrpc: "2.0",
  id: 3,
  method,
  params,
});
const notification = (params: Record<string, unknown> = {}) => ({
  jsonrpc: "2.0",
  method: "notifications/cancelled",
  params,
});
const claimed = { _meta: envelopeOf() };

describe("verbs and content types", () => {
  it("route GET and DELETE to the legacy era if it is served, otherwise answer 405", () => {
    expect(classifyVerb("POST", both)).toEqual({ ok: true, route: "message" });
    expect(classifyVerb("GET", both)).toEqual({ ok: true, route: "stream" });
    expect(classifyVerb("DELETE", legacyOnly)).toEqual({ ok: true, route: "end-session" });
    expect(classifyVerb("GET", modernOnly)).toEqual({ ok: false, status: 405, allow: "POST" });
    expect(classifyVerb("DELETE", modernOnly)).toEqual({ ok: false, status: 405, allow: "POST" });
    expect(classifyVerb("PUT", both)).toEqual({ ok: false, status: 405, allow: "POST, GET, DELETE" });
  });

  it("take application/json with any parameters and nothing else", () => {
    expect(["application/json", "Application/JSON ; charset=utf-8"].map(isJsonContentType)).toEqual([true, true]);
    for (const value of [undefined, "", "text/plain", "application/json-seq", "text/json", "application/jsonx"]) {
      expect(isJsonContentType(value)).toBe(false);
    }
  });

  it.each([
    { type: "application/json" },
    { type: 'application/json; charset="UTF-8"' },
    { type: "application/json;charset=us-ascii", coding: "Identity" },
    { type: "text/plain", says: "application/json" },
    { type: "application/json; charset=utf-16", says: "UTF-8" },
    { type: "application/json; charset = utf-7", says: "UTF-8" },
    { type: "application/json; charset=utf-8; charset=latin1", says: "UTF-8" },
    { type: "application/json; charset=", says: "UTF-8" },
    { type: "application/json", coding: "gzip", says: "compressed" },
    { type: "application/json", coding: "identity, br", says: "compressed" },
    { type: "application/json", coding: "", says: "compressed" },
  ])("are read as their headers say, or refused ($type, $coding)", ({ type, coding, says }) => {
    const headers: Record<string, string | undefined> = { "content-type": type, "content-encoding": coding };
    const problem = contentProblem((name) => headers[name]);
    if (says === undefined) expect(problem).toBeUndefined();
    else expect(problem).toContain(says);
  });
});

describe("bodies of no era", () => {
  it("[SC-014] answers invalid JSON with -32700 and an invalid message with -32600, both with 400", () => {
    expect(classify("{nope")).toMatchObject({ ok: false, response: { status: 400, code: -32700 } });
    expect(classify({ id: 5, method: "ping" })).toMatchObject({
      response: { status: 400, code: -32600, id: { json: "5" } },
    });
  });

  it("answers a body over the limit with 413 and both sizes", () => {
    const limits = { maxBytes: 10, maxDepth: 5, maxBatch: 5 };
    const body = Buffer.from(JSON.stringify(request("ping")));
    const outcome = parse(body, { revision: "2025-11-25", mode: "enforce", limits });
    expect(classifyPost(outcome, headersOf(), both)).toMatchObject({
      response: { status: 413, data: { limit: { actual: body.length, allowed: 10 } } },
    });
  });
});

describe("arrays", () => {
  it("are legacy when they hold legacy messages", () => {
    expect(classify([request("tools/list"), notification()])).toMatchObject({
      era: "legacy",
      reason: "batch",
    });
  });

  it("are refused when empty, without any message, or with a modern one among them", () => {
    for (const body of [[], [1, "x"], [request("tools/list"), request("tools/call", claimed)]]) {
      expect(classify(body)).toMatchObject({ ok: false, response: { status: 400, code: -32600 } });
    }
  });

  it("keep their good members when others are bad, which fail alone", () => {
    expect(classify([1, request("tools/list")])).toMatchObject({ era: "legacy", reason: "batch" });
  });

  it("are refused outside the one revision that has them, without an id", () => {
    for (const revision of revisionNames.filter((name) => name !== "2025-03-26")) {
      const verdict = classify([request("tools/list")], { revision });
      expect(verdict).toMatchObject({ ok: false, response: { status: 400, code: -32600 } });
      expect(!verdict.ok && "id" in verdict.response).toBe(false);
    }
  });
});

describe("responses", () => {
  it("are legacy traffic, and rejected if only the modern era is served", () => {
    const result = { jsonrpc: "2.0", id: "srv-1", result: {} };
    const error = { jsonrpc: "2.0", id: "srv-1", error: { code: -1, message: "no" } };
    for (const body of [result, error]) {
      expect(classify(body)).toMatchObject({ era: "legacy", reason: "response" });
      const verdict = classify(body, { serving: modernOnly });
      expect(verdict).toMatchObject({ ok: false, response: { status: 400, code: -32600 } });
    }
  });
});

describe("initialize", () => {
  const hello = request("initialize", { protocolVersion: "2025-06-18" });

  it("is a legacy handshake, whatever older version the header names", () => {
    expect(classify(hello)).toMatchObject({ era: "legacy", reason: "handshake", named: undefined });
    expect(classify(hello, { version: "2025-06-18" })).toMatchObject({ era: "legacy", named: "2025-06-18" });
  });

  it("under a modern header fits no era", () => {
    expect(classify(hello, { version: "2026-07-28" })).toMatchObject({
      ok: false,
      response: { status: 400, code: -32020, id: { json: "3" } },
    });
  });

  it("with a complete modern envelope is a modern request", () => {
    expect(classify(request("initialize", claimed))).toMatchObject({ ok: true, era: "modern" });
  });

  it.each([
    ["an incomplete envelope", { "io.modelcontextprotocol/protocolVersion": "2026-07-28" }],
    ["a legacy version in the envelope", envelopeOf({ "io.modelcontextprotocol/protocolVersion": "2025-11-25" })],
    ["a version that is no text", envelopeOf({ "io.modelcontextprotocol/protocolVersion": 5 })],
  ])("with %s is still a handshake", (_what, meta) => {
    expect(classify(request("initialize", { _meta: meta }))).toMatchObject({
      era: "legacy",
      reason: "handshake",
    });
  });
});

describe("other requests", () => {
  it("are modern when the body claims it, complete or not, whatever the header says", () => {
    expect(classify(request("tools/call", claimed), { version: "2025-11-25" })).toMatchObject({
      era: "modern",
    });
    expect(classify(request("tools/call", claimed))).toMatchObject({ era: "modern" });
    const half = { _meta: { "io.modelcontextprotocol/protocolVersion": null } };
    expect(classify(request("tools/call", half))).toMatchObject({ era: "modern" });
  });

  it("are modern when only a modern header claims it, be the date known or not", () => {
    expect(classify(request("tools/call"), { version: "2026-07-28" })).toMatchObject({ era: "modern" });
    expect(classify(request("tools/call"), { version: "2099-01-01" })).toMatchObject({ era: "modern" });
  });

  it("are legacy without any claim", () => {
    expect(classify(request("tools/call"), { version: "2025-06-18" })).toMatchObject({
      era: "legacy",
      reason: "request",
      named: "2025-06-18",
    });
    expect(classify(request("tools/call", { _meta: { progressToken: 1 } }))).toMatchObject({ era: "legacy" });
  });
});

describe("notifications", () => {
  it("follow their envelope, else the header", () => {
    expect(classify(notification(claimed))).toMatchObject({ era: "modern" });
    expect(classify(notification(), { version: "2026-07-28" })).toMatchObject({ era: "modern" });
    expect(classify(notification())).toMatchObject({ era: "legacy", reason: "notification" });
  });
});

describe("an endpoint of the modern era only", () => {
  it("answers handshakes and claimless requests with what it supports", () => {
    expect(classify(request("initialize", { protocolVersion: "2025-06-18" }), { serving: modernOnly })).toMatchObject({
      ok: false,
      response: { status: 400, code: -32022, data: { supported: ["2026-07-28"], requested: "2025-06-18" } },
    });
    const claimless = request("tools/list", { protocolVersion: "not the place for it" });
    const verdict = classify(claimless, { serving: modernOnly });
    expect(!verdict.ok && verdict.response.data).toEqual({ supported: ["2026-07-28"] });
    expect(classify(claimless, { serving: modernOnly, version: "2025-11-25" })).toMatchObject({
      response: { data: { requested: "2025-11-25" } },
    });
  });

  it("takes legacy notifications and drops them", () => {
    expect(classify(notification(), { serving: modernOnly })).toEqual({ ok: true, era: "none" });
  });

  it("refuses batches and serves modern requests", () => {
    expect(classify([request("tools/list")], { serving: modernOnly })).toMatchObject({
      response: { code: -32600 },
    });
    expect(classify(request("tools/call", claimed), { serving: modernOnly })).toMatchObject({
      era: "modern",
    });
  });
});

describe("an endpoint of the legacy era only", () => {
  it("ignores envelope and modern header, so that dual-era clients fall back", () => {
    const enveloped = classify(request("tools/call", claimed), {
      serving: legacyOnly,
      version: "2026-07-28",
    });
    expect(enveloped).toMatchObject({ era: "legacy", reason: "request", named: "2026-07-28" });
    const hello = request("initialize", { protocolVersion: "2026-07-28" });
    expect(classify(hello, { serving: legacyOnly, version: "2026-07-28" })).toMatchObject({
      era: "legacy",
      reason: "handshake",
    });
    expect(classify(notification(claimed), { serving: legacyOnly })).toMatchObject({
      reason: "notification",
    });
  });
});
