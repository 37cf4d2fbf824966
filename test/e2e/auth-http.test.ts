import { describe, expect, it } from "vitest";

import { createHttpClient } from "../../src/auth/http-client.ts";
import { systemTimer } from "../../src/core/exchange.ts";
import { fakeUpstream } from "../support/fake-upstream.ts";

const options = { maxBytes: 1000, setTimer: systemTimer };
const ask = createHttpClient({ ...options, timeoutMs: 60_000 });

describe("a question to an authorization server", () => {
  it("is a form, or a plain GET, and its answer is read as JSON", async () => {
    await using server = await fakeUpstream((call) => {
      call.reply({ method: call.method, body: call.text }, 200, { "cache-control": "max-age=5" });
    });
    const posted = await ask({ url: server.url, headers: { "x-a": "b" }, form: [["a b", "c&d"]] });
    expect(posted).toMatchObject({ status: 200, json: { method: "POST", body: "a+b=c%26d" } });
    expect(posted.header("cache-control")).toBe("max-age=5");
    expect(server.calls[0]?.headers).toMatchObject({
      "content-type": "application/x-www-form-urlencoded",
      accept: "application/json",
      "x-a": "b",
    });
    expect(await ask({ url: server.url })).toMatchObject({ json: { method: "GET" } });
  });

  it("has no JSON in an answer that says two things", async () => {
    await using server = await fakeUpstream((call) => {
      call.replyRaw(200, { "content-type": "application/json" }, '{"active":false,"sub":"a","active":true}');
    });
    expect((await ask({ url: server.url })).json).toBeUndefined();
  });

  it("does not follow a redirect: secrets would go along", async () => {
    await using target = await fakeUpstream((call) => call.reply({}));
    await using server = await fakeUpstream((call) => {
      call.replyRaw(307, { location: target.url });
    });
    expect(await ask({ url: server.url, form: [["client_secret", "s"]] })).toMatchObject({ status: 307 });
    expect(target.calls).toHaveLength(0);
  });

  it("is given up when the answer is too large, too slow, or nobody is there", async () => {
    await using large = await fakeUpstream((call) => {
      call.reply({ text: "x".repeat(2000) });
    });
    await expect(ask({ url: large.url })).rejects.toMatchObject({ code: "upstream_invalid" });
    await using slow = await fakeUpstream(() => {});
    const askInHaste = createHttpClient({ ...options, timeoutMs: 500 });
    await expect(askInHaste({ url: `${slow.url}?secret=1` })).rejects.toMatchObject({
      code: "upstream_unreachable",
      message: `${slow.url} did not answer within 500 ms`,
    });
    await expect(ask({ url: "http://127.0.0.1:1/token" })).rejects.toMatchObject({
      code: "upstream_unreachable",
      message: "http://127.0.0.1:1/token cannot be reached",
    });
  });
});
