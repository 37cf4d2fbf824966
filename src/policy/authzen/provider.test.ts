import { describe, expect, it } from "vitest";

import {
  alice,
  askedBy,
  calm,
  createFakedAuthZen,
  decided,
  permitted,
  type AuthZenReply,
} from "../../../test/support/fake-authzen.ts";
import type { Decision } from "../provider/provider.ts";
import { withFailOpen } from "../provider/fail-open.ts";

const loose = { declaredMappings: "ignore", retries: 0, circuitBreaker: false };
const call = () => askedBy("tools/call", { name: "add", arguments: { a: 1 } });

function refusalOf(decision: Decision) {
  if (decision.effect === "deny") return decision.refusal;
  throw new Error("it was allowed");
}

async function decisionOn(reply: AuthZenReply, input = {}, surroundings = {}) {
  const { provider } = createFakedAuthZen({ ...loose, ...input }, () => reply, surroundings);
  return provider.evaluateRequest(call(), calm);
}

describe("the AuthZEN provider", () => {
  it("sends credentials and request id", async () => {
    const { provider, calls } = createFakedAuthZen({
      ...loose,
      token: "t0ken",
      headers: { "x-api-key": "k" },
    });
    await provider.evaluateRequest(call(), calm);
    expect(calls[0]).toMatchObject({
      method: "POST",
      path: "/access/v1/evaluation",
      headers: {
        Authorization: "Bearer t0ken",
        "Content-Type": "application/json",
        "X-Request-ID": "exchange-1",
        "x-api-key": "k",
      },
    });
  });

  it("hides denied names, or forbids them if configured", async () => {
    const no = { json: { decision: false } };
    expect(refusalOf(await decisionOn(no))).toMatchObject({ kind: "hidden" });
    expect(refusalOf(await decisionOn(no, { denied: "forbidden" }))).toMatchObject({
      kind: "forbidden",
      code: "denied_by_policy",
    });
    expect(refusalOf(await decisionOn(no, { lists: "show" })).kind).toBe("forbidden");
    expect(refusalOf(await decisionOn(no, {}, { denied: "forbidden" })).kind).toBe("forbidden");
    const { provider } = createFakedAuthZen(loose, () => no);
    expect(refusalOf(await provider.evaluateRequest(askedBy("tools/list", {}), calm)).kind).toBe("forbidden");
  });

  it("tells the agent the reason at the configured pointer only", async () => {
    const no = {
      json: { decision: false, context: { reason_admin: "secret", reason_user: { en: "Ask Bob." } } },
    };
    const input = { denied: "forbidden", reason: "/reason_user/en" };
    expect(refusalOf(await decisionOn(no, input)).reason).toBe("Ask Bob.");
    expect(refusalOf(await decisionOn(no, { denied: "forbidden" })).reason).toBe("The policy does not allow this.");
    expect(refusalOf(await decisionOn(no, { ...input, reason: "/other" })).reason).toBe(
      "The policy does not allow this.",
    );
  });

  it.each<readonly [string, AuthZenReply, string, boolean]>([
    ["nobody answers", new Error("down"), "unavailable", true],
    ["it fails", { status: 500 }, "unavailable", true],
    ["it asks for a pause", { status: 429 }, "rate", false],
    ["it does not know us", { status: 401 }, "unavailable", false],
    ["it refuses us", { status: 403, json: { decision: true } }, "unavailable", false],
    ["it redirects", { status: 302, json: { decision: true } }, "unavailable", false],
    ["it answers with another success", { status: 201, json: { decision: true } }, "unavailable", false],
    ["its answer is no JSON", { text: "yes" }, "unavailable", false],
    ["its answer decides twice", { text: '{"decision":false,"decision":true}' }, "unavailable", false],
    ["its answer decides twice, escaped", { text: '{"decision":false,"decisio\\u006e":true}' }, "unavailable", false],
    ["its answer has no decision", { json: { permit: true } }, "unavailable", false],
    ["its decision is no boolean", { json: { decision: "true" } }, "unavailable", false],
    ["its context is no object", { json: { decision: true, context: [{ obligations: [] }] } }, "unavailable", false],
    ["its context is a text", { json: { decision: true, context: "audit" } }, "unavailable", false],
    ["its obligations are outside the context", { json: { decision: true, obligations: [{}] } }, "unavailable", false],
    ["it permits and decides one by one", { json: { decision: true, evaluations: [] } }, "unavailable", false],
    ["its answer is no object", { json: true }, "unavailable", false],
  ])("denies if %s, and marks what may fail open", async (_when, reply, kind, opens) => {
    expect(refusalOf(await decisionOn(reply)).kind).toBe(kind);
    const opened: string[] = [];
    const { provider } = createFakedAuthZen(loose, () => reply);
    const open = withFailOpen(provider, (problem) => void opened.push(problem));
    expect((await open.evaluateRequest(call(), calm)).effect).toBe(opens ? "allow" : "deny");
    const list = {
      subject: askedBy("tools/list", {}),
      kind: "tool" as const,
      entries: [{ name: "a", value: {} }],
    };
    const seen = await open.filterList?.(list, calm);
    expect([seen?.refusal === undefined, seen?.visible]).toEqual([opens, [opens]]);
    expect(opened).toHaveLength(opens ? 2 : 0);
  });

  it("retries, counts, and opens the breaker", async () => {
    const { provider, calls, time, retries, breaker } = createFakedAuthZen(
      { declaredMappings: "ignore", retries: 2, retryBackoff: 100, circuitBreakerPause: 5000 },
      (question, index) => (index < 3 ? { status: 503 } : permitted(question)),
    );
    const first = provider.evaluateRequest(call(), calm);
    await time.advance(250);
    expect(refusalOf(await first).kind).toBe("unavailable");
    expect([calls.length, retries()]).toEqual([3, 2]);
    expect(refusalOf(await provider.evaluateRequest(call(), calm))).toMatchObject({ retryAfter: 5 });
    expect(calls).toHaveLength(3);
    await time.advance(5000);
    expect((await provider.evaluateRequest(call(), calm)).effect).toBe("allow");
    expect(breaker).toEqual([false, true, true, false]);
  });

  it("honours Retry-After", async () => {
    const { provider, calls, time } = createFakedAuthZen({ declaredMappings: "ignore" }, (question, index) =>
      index === 0 ? { status: 429, headers: { "retry-after": "7" } } : permitted(question),
    );
    expect(refusalOf(await provider.evaluateRequest(call(), calm))).toMatchObject({
      kind: "rate",
      retryAfter: 7,
    });
    await time.advance(6999);
    expect(refusalOf(await provider.evaluateRequest(call(), calm)).kind).toBe("rate");
    await time.advance(1);
    expect((await provider.evaluateRequest(call(), calm)).effect).toBe("allow");
    expect(calls).toHaveLength(2);
  });

  it("keeps the breaker closed when the caller goes away", async () => {
    const gone = new AbortController();
    const { provider, breaker } = createFakedAuthZen({ ...loose, circuitBreaker: true }, () => {
      gone.abort("client-gone");
      return new Error("aborted");
    });
    await expect(
      Promise.resolve(provider.evaluateRequest(call(), { memory: undefined, signal: gone.signal })),
    ).rejects.toThrow("the caller disconnected");
    expect(breaker).toEqual([false]);
  });
});

describe("cached decisions", () => {
  const cached = (headers: Readonly<Record<string, string>>, input = {}) =>
    createFakedAuthZen({ ...loose, ...input }, (question) => ({ ...permitted(question), headers }));

  it("are reused for max-age, for the same request only", async () => {
    const { provider, calls, time, looks } = cached({ "cache-control": "private, max-age=10" });
    for (let i = 0; i < 3; i++) expect((await provider.evaluateRequest(call(), calm)).effect).toBe("allow");
    expect(calls).toHaveLength(1);
    const other = { ...alice, claims: { ...alice.claims, sub: "bob" } };
    await provider.evaluateRequest(askedBy("tools/call", { name: "add" }, { principal: other }), calm);
    await provider.evaluateRequest(askedBy("tools/call", { name: "sub" }), calm);
    expect(calls).toHaveLength(3);
    await time.advance(10_000);
    await provider.evaluateRequest(call(), calm);
    expect(calls).toHaveLength(4);
    expect(looks).toEqual([false, true, true, false, false, false]);
  });

  it.each([
    [{}, {}, 2],
    [{}, { cache: { ttl: "5s" } }, 1],
    [{ "cache-control": "no-store" }, { cache: { ttl: "5s" } }, 2],
    [{ "cache-control": "no-cache, max-age=60" }, {}, 2],
    [{ "cache-control": "max-age=0" }, { cache: { ttl: "5s" } }, 2],
    [{ "cache-control": "max-age=60", age: "60" }, {}, 2],
    [{ "cache-control": "max-age=60" }, { cache: { entries: 0 } }, 2],
    [{ "cache-control": "max-age=60" }, { cache: { maxAge: 1 } }, 1],
  ])("with %j and %j take %i calls for two requests", async (headers, input, count) => {
    const { provider, calls } = cached(headers, input);
    await provider.evaluateRequest(call(), calm);
    await provider.evaluateRequest(call(), calm);
    expect(calls).toHaveLength(count);
  });

  it("never outlive maxAge", async () => {
    const { provider, calls, time } = cached({ "cache-control": "max-age=86400" }, { cache: { maxAge: 1000 } });
    await provider.evaluateRequest(call(), calm);
    await time.advance(1000);
    await provider.evaluateRequest(call(), calm);
    expect(calls).toHaveLength(2);
  });

  it("include denials, but never failures", async () => {
    const { provider, calls } = createFakedAuthZen(loose, (question, index) => ({
      ...(index === 0 ? { status: 500 } : decided(question, () => false)),
      headers: { "cache-control": "max-age=60" },
    }));
    const effects = [];
    for (let i = 0; i < 3; i++) effects.push(refusalOf(await provider.evaluateRequest(call(), calm)).kind);
    expect(effects).toEqual(["unavailable", "hidden", "hidden"]);
    expect(calls).toHaveLength(2);
  });
});
