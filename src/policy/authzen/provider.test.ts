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

function denialOf(verdict: Decision) {
  if (verdict.effect === "deny") return verdict.refusal;
  throw new Error("it was allowed");
}

async function verdictOn(reply: AuthZenReply, input = {}, surroundings = {}) {
  const { provider } = createFakedAuthZen({ ...loose, ...input }, () => reply, surroundings);
  return provider.evaluateRequest(call(), calm);
}

describe("the AuthZEN provider", () => {
  it("says who it is and what it wants in every question", async () => {
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

  it("hides a name that lists do not show, and forbids it when told so", async () => {
    const no = { json: { decision: false } };
    expect(denialOf(await verdictOn(no))).toMatchObject({ kind: "hidden" });
    expect(denialOf(await verdictOn(no, { denied: "forbidden" }))).toMatchObject({
      kind: "forbidden",
      code: "denied_by_policy",
    });
    expect(denialOf(await verdictOn(no, { lists: "show" })).kind).toBe("forbidden");
    expect(denialOf(await verdictOn(no, {}, { denied: "forbidden" })).kind).toBe("forbidden");
    const { provider } = createFakedAuthZen(loose, () => no);
    expect(denialOf(await provider.evaluateRequest(askedBy("tools/list", {}), calm)).kind).toBe("forbidden");
  });

  it("tells the agent the reason from where the configuration says that it is, and from nowhere else", async () => {
    const no = {
      json: { decision: false, context: { reason_admin: "secret", reason_user: { en: "Ask Bob." } } },
    };
    const input = { denied: "forbidden", reason: "/reason_user/en" };
    expect(denialOf(await verdictOn(no, input)).reason).toBe("Ask Bob.");
    expect(denialOf(await verdictOn(no, { denied: "forbidden" })).reason).toBe("The policy does not allow this.");
    expect(denialOf(await verdictOn(no, { ...input, reason: "/other" })).reason).toBe(
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
    ["its answer has no decision", { json: { permit: true } }, "unavailable", false],
    ["its decision is no boolean", { json: { decision: "true" } }, "unavailable", false],
    ["its answer is no object", { json: true }, "unavailable", false],
  ])("shuts the gate when %s, and knows what may open it", async (_when, reply, kind, opens) => {
    expect(denialOf(await verdictOn(reply)).kind).toBe(kind);
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

  it("tries again after failures, counts it, and leaves a decision point alone that stays down", async () => {
    const { provider, calls, time, retries, breaker } = createFakedAuthZen(
      { declaredMappings: "ignore", retries: 2, retryBackoff: 100, circuitBreakerPause: 5000 },
      (question, index) => (index < 3 ? { status: 503 } : permitted(question)),
    );
    const first = provider.evaluateRequest(call(), calm);
    await time.advance(250);
    expect(denialOf(await first).kind).toBe("unavailable");
    expect([calls.length, retries()]).toEqual([3, 2]);
    expect(denialOf(await provider.evaluateRequest(call(), calm))).toMatchObject({ retryAfter: 5 });
    expect(calls).toHaveLength(3);
    await time.advance(5000);
    expect((await provider.evaluateRequest(call(), calm)).effect).toBe("allow");
    expect(breaker).toEqual([false, true, true, false]);
  });

  it("waits as long as the decision point asks for", async () => {
    const { provider, calls, time } = createFakedAuthZen({ declaredMappings: "ignore" }, (question, index) =>
      index === 0 ? { status: 429, headers: { "retry-after": "7" } } : permitted(question),
    );
    expect(denialOf(await provider.evaluateRequest(call(), calm))).toMatchObject({
      kind: "rate",
      retryAfter: 7,
    });
    await time.advance(6999);
    expect(denialOf(await provider.evaluateRequest(call(), calm)).kind).toBe("rate");
    await time.advance(1);
    expect((await provider.evaluateRequest(call(), calm)).effect).toBe("allow");
    expect(calls).toHaveLength(2);
  });

  it("says nothing about the decision point when somebody has gone", async () => {
    const gone = new AbortController();
    const { provider, breaker } = createFakedAuthZen({ ...loose, circuitBreaker: true }, () => {
      gone.abort("client-gone");
      return new Error("aborted");
    });
    await expect(
      Promise.resolve(provider.evaluateRequest(call(), { memory: undefined, signal: gone.signal })),
    ).rejects.toThrow("the caller went away");
    expect(breaker).toEqual([false]);
  });
});

describe("decisions that are kept", () => {
  const cached = (headers: Readonly<Record<string, string>>, input = {}) =>
    createFakedAuthZen({ ...loose, ...input }, (question) => ({ ...permitted(question), headers }));

  it("hold for as long as the decision point says, for the same question only", async () => {
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
  ])("with %j and %j is asked %i times for two calls", async (headers, input, count) => {
    const { provider, calls } = cached(headers, input);
    await provider.evaluateRequest(call(), calm);
    await provider.evaluateRequest(call(), calm);
    expect(calls).toHaveLength(count);
  });

  it("never outlive the longest time that is believed", async () => {
    const { provider, calls, time } = cached({ "cache-control": "max-age=86400" }, { cache: { maxAge: 1000 } });
    await provider.evaluateRequest(call(), calm);
    await time.advance(1000);
    await provider.evaluateRequest(call(), calm);
    expect(calls).toHaveLength(2);
  });

  it("keep a no as well as a yes, but never a failure", async () => {
    const { provider, calls } = createFakedAuthZen(loose, (question, index) => ({
      ...(index === 0 ? { status: 500 } : decided(question, () => false)),
      headers: { "cache-control": "max-age=60" },
    }));
    const effects = [];
    for (let i = 0; i < 3; i++) effects.push(denialOf(await provider.evaluateRequest(call(), calm)).kind);
    expect(effects).toEqual(["unavailable", "hidden", "hidden"]);
    expect(calls).toHaveLength(2);
  });
});
