import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { exchangeWith } from "../../test/support/exchange.ts";
import { notificationOf, requestOf, resultOf } from "../../test/support/messages.ts";
import { formatTraceparent, headerTrace, messageTrace, parseTrace, traceOf } from "./trace-context.ts";

const traceId = "0af7651916cd43dd8448eb211c80319c";
const spanId = "b7ad6b7169203331";
const traceparent = `00-${traceId}-${spanId}-01`;

const hex = (length: number) =>
  fc
    .array(fc.constantFrom(...Array.from("0123456789abcdef")), { minLength: length, maxLength: length })
    .map((digits) => digits.join(""))
    .filter((digits) => /[^0]/u.test(digits));

describe("the texts of W3C Trace Context", () => {
  it("are read as they are written", () => {
    fc.assert(
      fc.property(hex(32), hex(16), fc.boolean(), (trace, span, isSampled) => {
        const link = { traceId: trace, spanId: span, isSampled };
        expect(parseTrace(formatTraceparent(link), undefined)).toEqual({ ...link, tracestate: undefined });
      }),
    );
  });

  it.each([
    ["nothing", undefined],
    ["other text", "trace me"],
    ["upper case", traceparent.toUpperCase()],
    ["no trace", `00-${"0".repeat(32)}-${spanId}-01`],
    ["no span", `00-${traceId}-${"0".repeat(16)}-01`],
    ["the version that is none", `ff-${traceId}-${spanId}-01`],
    ["more than its version has", `${traceparent}-more`],
    ["a line end", `${traceparent}\n`],
  ])("count as absent where they are not well-formed: %s", (_what, text) => {
    expect(parseTrace(text, "a=1")).toBeUndefined();
  });

  it("may be of a later version, which may say more", () => {
    expect(parseTrace(`01-${traceId}-${spanId}-03-more`, undefined)).toMatchObject({
      traceId,
      isSampled: true,
    });
  });

  it("lose a state that is empty or too long to be passed on", () => {
    expect(parseTrace(traceparent, "a=1")?.tracestate).toBe("a=1");
    expect(parseTrace(traceparent, "")?.tracestate).toBeUndefined();
    expect(parseTrace(traceparent, "a".repeat(513))?.tracestate).toBeUndefined();
  });
});

describe("the trace of an exchange", () => {
  const http = { type: "http", method: "POST", path: "/mcp", headers: {} } as const;
  const other = `00-${traceId}-00f067aa0ba902b7-00`;
  const message = requestOf("tools/call", { name: "a", _meta: { traceparent } });

  it("[SC-072] is what the message says, or else the request that brought it", () => {
    const transport = { ...http, trace: { traceparent: other, tracestate: "a=1" } };
    expect(traceOf(exchangeWith(message, { transport }))).toMatchObject({ spanId, isSampled: true });
    const plain = exchangeWith(requestOf("ping"), { transport });
    expect(traceOf(plain)).toMatchObject({ spanId: "00f067aa0ba902b7", isSampled: false, tracestate: "a=1" });
    expect(traceOf(exchangeWith(requestOf("ping"), { transport: http }))).toBeUndefined();
  });

  it("is the span that follows it here, where one does", () => {
    const trace = { traceId, spanId: "1111111111111111", isSampled: true };
    expect(traceOf(exchangeWith(message, { tracking: { entry: undefined, trace } }))).toBe(trace);
  });

  it("is told by requests and notifications, not by answers", () => {
    const notice = notificationOf("notifications/initialized", { _meta: { traceparent } });
    expect(messageTrace(exchangeWith(notice))).toMatchObject({ traceId });
    expect(messageTrace(exchangeWith(resultOf({ _meta: { traceparent } })))).toBeUndefined();
    expect(headerTrace(exchangeWith(notice))).toBeUndefined();
  });
});
