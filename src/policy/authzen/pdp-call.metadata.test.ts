import { describe, expect, it } from "vitest";

import {
  askedBy,
  authZenProblems,
  calm,
  createFakedAuthZen,
  permitted,
  type AuthZenReply,
} from "../../../test/support/fake-authzen.ts";

const url = "https://pdp.example.com/tenant";
const metadata = {
  policy_decision_point: url,
  access_evaluation_endpoint: "https://pdp.example.com/t/eval?v=1",
  access_evaluations_endpoint: "https://pdp.example.com/t/evals",
};
const ask = () => askedBy("tools/call", { name: "add" });

function discovering(reply: (index: number) => AuthZenReply) {
  let reads = 0;
  return createFakedAuthZen(
    { url, discovery: true, declaredMappings: "ignore", retries: 0, circuitBreaker: false },
    (call) => (call.method === "GET" ? reply(reads++) : permitted(call)),
  );
}

describe("the metadata of a decision point", () => {
  it("is read once from the well-known path", async () => {
    const { provider, calls } = discovering(() => ({ json: metadata }));
    await provider.evaluateRequest(ask(), calm);
    await provider.evaluateRequest(ask(), calm);
    expect(calls.map(({ path }) => path)).toEqual([
      "/.well-known/authzen-configuration/tenant",
      "/t/eval?v=1",
      "/t/eval?v=1",
    ]);
  });

  it.each<readonly [string, AuthZenReply]>([
    ["is about another decision point", { json: { ...metadata, policy_decision_point: "https://evil.example" } }],
    ["has no identifier", { json: { ...metadata, policy_decision_point: undefined } }],
    ["has no endpoint", { json: { policy_decision_point: url } }],
    ["leads elsewhere", { json: { ...metadata, access_evaluation_endpoint: "https://evil.example/e" } }],
    [
      "leads elsewhere with batches",
      { json: { ...metadata, access_evaluations_endpoint: "http://pdp.example.com/e" } },
    ],
    ["is no JSON", { text: "<html>" }],
    ["is null", { json: null }],
    ["is not for us", { status: 401 }],
  ])("denies without fail-open if it %s", async (_what, reply) => {
    const { provider, calls } = discovering(() => reply);
    expect(await provider.evaluateRequest(ask(), calm)).toMatchObject({
      effect: "deny",
      refusal: { kind: "unavailable", neverFailOpen: true },
    });
    expect(calls).toHaveLength(1);
  });

  it("may be missing: the default paths are used", async () => {
    const { provider, calls } = discovering(() => ({ status: 404 }));
    expect((await provider.evaluateRequest(ask(), calm)).effect).toBe("allow");
    expect(calls.at(-1)?.path).toBe("/tenant/access/v1/evaluation");
  });

  it("is read again when it expires, and kept while that fails", async () => {
    const { provider, calls, time } = discovering((index) =>
      index === 0 ? { json: metadata, headers: { "cache-control": "max-age=120" } } : { status: 503 },
    );
    await provider.evaluateRequest(ask(), calm);
    await time.advance(119_999);
    await provider.evaluateRequest(ask(), calm);
    expect(calls.filter(({ method }) => method === "GET")).toHaveLength(1);
    await time.advance(1);
    expect((await provider.evaluateRequest(ask(), calm)).effect).toBe("allow");
    await provider.evaluateRequest(ask(), calm);
    expect(calls.filter(({ method }) => method === "GET")).toHaveLength(2);
  });

  it("that cannot be read leaves no decision", async () => {
    const { provider } = discovering(() => new Error("down"));
    const decision = await provider.evaluateRequest(ask(), calm);
    expect(decision).toMatchObject({ effect: "deny", refusal: { kind: "unavailable" } });
    expect(decision).not.toHaveProperty("refusal.neverFailOpen");
  });
});

describe("the configuration of a decision point", () => {
  it.each([
    [{ url: "pdp.example.com" }, "url: is not an http or https URL"],
    [{ url: "https://pdp.example.com?x=1" }, "url: must have neither a query nor a fragment"],
    [{ url: "https://a:b@pdp.example.com" }, "url: must not contain credentials"],
    [{ url: "http://pdp.example.com" }, "url: must be https"],
    [{ url: "http://127.0.0.1.evil.example" }, "url: must be https"],
    [{ tls: { certFile: "a.pem" } }, "tls: `certFile` and `keyFile` go together"],
    [{ reason: "reason_user" }, "reason: is not a JSON Pointer"],
    [{ headers: { "bad name": "x" } }, "headers.bad name: "],
  ])("is refused with %j", (input, problem) => {
    expect(authZenProblems(input)).toEqual([expect.stringContaining(problem)]);
  });

  it.each([
    { url: "http://127.0.0.1:8090" },
    { url: "http://localhost" },
    { url: "http://[::1]:1" },
    { url: "http://pdp", allowHttp: true },
  ])("accepts http on loopback: %j", (input) => {
    expect(authZenProblems(input)).toEqual([]);
  });
});
