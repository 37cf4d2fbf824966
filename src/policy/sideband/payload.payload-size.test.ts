import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { mcpFixtures } from "../../../test/fixtures/mcp/messages.ts";
import { createFakedEngine, echoed } from "../../../test/support/fake-pdp.ts";
import { answered, continued, requestFacts } from "../../../test/support/mock-pingauthorize.ts";
import { fitPayload, type Payload, truncateBody } from "./payload.ts";

const payloadWith = (body: string): Payload => ({
  body,
  render: (text) => JSON.stringify({ a: 1, body: text }),
});
const frame = Buffer.byteLength('{"a":1,"body":""}');
const truncate = (most: number) => ({ max_sideband_body_bytes: most, max_sideband_body_action: "truncate" }) as const;

describe("the size limit", () => {
  it("[PA-163] does not exist at 0", () => {
    const body = "x".repeat(100_000);
    expect(fitPayload(payloadWith(body), truncate(0))).toMatchObject({ sentBody: body, isTruncated: false });
  });

  it("[PA-203] counts UTF-8 bytes, and exactly the limit is not over it", () => {
    const fitted = fitPayload(payloadWith("øø"), truncate(frame + 4));
    expect(fitted).toMatchObject({ sentBody: "øø", isTruncated: false });
    expect(fitPayload(payloadWith("øø"), truncate(frame + 3))).toMatchObject({
      sentBody: "ø",
      isTruncated: true,
    });
  });

  it("[PA-164] shortens the body to whole characters, as little as it can", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 60 }), fc.nat(80), (body, room) => {
        const fitted = fitPayload(payloadWith(body), truncate(frame + room));
        const { text = "", sentBody = "" } = fitted ?? {};
        expect(Buffer.byteLength(text)).toBeLessThanOrEqual(frame + room);
        expect(body.startsWith(sentBody)).toBe(true);
        expect(sentBody.isWellFormed()).toBe(true);
        const next = String.fromCodePoint(body.codePointAt(sentBody.length) ?? 0x20);
        const longer = payloadWith("").render(sentBody + next);
        if (sentBody !== body) expect(Buffer.byteLength(longer)).toBeGreaterThan(frame + room);
      }),
    );
  });

  it("[PA-204] gives up when the rest alone is over it", () => {
    expect(fitPayload(payloadWith("x"), truncate(frame - 1))).toBeUndefined();
    expect(fitPayload(payloadWith("x"), truncate(frame))).toMatchObject({ sentBody: "" });
  });

  it("[PA-204] shortens the inner request's body after the own one", () => {
    const request = JSON.stringify({ method: "POST", body: "0123456789", z: 1.5 });
    const withRequest = (inner: string): Payload => ({
      body: "abc",
      render: (text) => `{"body":${JSON.stringify(text)},"request":${inner}}`,
      truncateRequest: (excess) => withRequest(truncateBody(inner, excess)),
    });
    const whole = Buffer.byteLength(withRequest(request).render("abc"));
    const fitted = fitPayload(withRequest(request), truncate(whole - 7));
    expect(JSON.parse(fitted?.text ?? "")).toEqual({
      body: "",
      request: { method: "POST", body: "012345", z: 1.5 },
    });
    expect(fitted?.isTruncated).toBe(true);
    expect(fitPayload(withRequest(request), truncate(20))).toBeUndefined();
  });
});

describe("a request over the size limit", () => {
  const body = Buffer.from(mcpFixtures.toolsCall.replace("London", "L".repeat(500)));
  const sizeWithoutBody = 700;

  it("[PA-164] is sent shortened, with MCP context and headers whole and a warning", async () => {
    const settings = { enable_mcp: true, max_sideband_body_bytes: 1200 };
    const { engine, calls, logs } = createFakedEngine(settings, echoed);
    continued(await engine.evaluateRequest(requestFacts({ body })));
    expect(calls[0]?.body.length).toBe(1200);
    expect(body.toString().startsWith(String(calls[0]?.payload.body))).toBe(true);
    expect(calls[0]?.payload).toMatchObject({
      mcp: { mcp_tool_name: "get_weather", mcp_tool_arguments: { city: "L".repeat(500) } },
      headers: [{ host: "api.example.com" }, { "content-type": "application/json" }],
    });
    expect(logs).toContainEqual(expect.objectContaining({ level: "warn", msg: expect.stringContaining("shortened") }));
  });

  it("[PA-203] is one with or without enable_mcp", async () => {
    const { engine, calls } = createFakedEngine({ max_sideband_body_bytes: sizeWithoutBody }, echoed);
    continued(await engine.evaluateRequest(requestFacts({ body })));
    expect(calls[0]?.body.length).toBe(sizeWithoutBody);
  });

  it("[PA-203] [PA-204] does not write out a body that is too long by itself", () => {
    const lengths: number[] = [];
    const payload = {
      body: "x".repeat(1_000_000),
      render: (text: string) => {
        lengths.push(text.length);
        return JSON.stringify({ body: text });
      },
    };
    const limit = { max_sideband_body_bytes: 100 };
    expect(fitPayload(payload, { ...limit, max_sideband_body_action: "reject" })).toBeUndefined();
    expect(lengths).toEqual([]);
    const fitted = fitPayload(payload, { ...limit, max_sideband_body_action: "truncate" });
    expect([fitted?.text.length, fitted?.isTruncated, Math.max(...lengths)]).toEqual([100, true, 100]);
  });

  it("[PA-204] is answered 413 with reject, also with fail_open, without asking the policy", async () => {
    const settings = {
      max_sideband_body_bytes: sizeWithoutBody,
      max_sideband_body_action: "reject",
      fail_open: true,
    };
    const { engine, calls } = createFakedEngine(settings, echoed);
    const { answer } = answered(await engine.evaluateRequest(requestFacts({ body })));
    expect(answer).toEqual({ status: 413, headers: {}, body: Buffer.alloc(0) });
    expect(calls).toEqual([]);
    expect((await engine.evaluateRequest(requestFacts())).action).toBe("continue");
  });

  it("[PA-205] goes upstream as it came when the policy only repeats it", async () => {
    const { engine } = createFakedEngine({ max_sideband_body_bytes: sizeWithoutBody }, echoed);
    expect(continued(await engine.evaluateRequest(requestFacts({ body }))).changes).toEqual([]);
  });

  it("[PA-205] is refused with 502 when the policy changed what it saw only a part of", async () => {
    const { engine } = createFakedEngine(
      { max_sideband_body_bytes: sizeWithoutBody, fail_open: true },
      ({ payload }) => ({
        json: { ...payload, body: "other" },
      }),
    );
    expect(answered(await engine.evaluateRequest(requestFacts({ body }))).answer.status).toBe(502);
  });

  it("[PA-205] is refused by the policy all the same", async () => {
    const { engine } = createFakedEngine({ max_sideband_body_bytes: sizeWithoutBody }, () => ({
      json: { response: { response_code: "403", body: "no" } },
    }));
    const { answer } = answered(await engine.evaluateRequest(requestFacts({ body })));
    expect(answer.status).toBe(403);
    expect(answer.body.toString()).toBe("no");
  });
});
