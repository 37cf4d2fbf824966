import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { messageFrom, textOf, valueOf } from "../../test/support/exchange.ts";
import { requestOf } from "../../test/support/messages.ts";
import { parse } from "../protocol/parse.ts";
import { withTraceMeta } from "./trace-context.ts";

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const before = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01";

describe("a message with trace context", () => {
  it.each([
    ["has no params", `{"jsonrpc":"2.0","id":1,"method":"ping"}`],
    ["has empty params", `{"jsonrpc":"2.0","id":1,"method":"ping","params": { } }`],
    ["has params", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}`],
    ["has an empty _meta", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{}}}`],
    ["has a _meta", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"progressToken":1}}}`],
    ["says another", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"traceparent":"${before}"}}}`],
    ["begins with space", ` \n{"jsonrpc":"2.0","method":"notifications/initialized"}`],
  ])("[SC-072] keeps everything else: it %s", (_what, text) => {
    const value: unknown = JSON.parse(text);
    const traced = withTraceMeta(messageFrom(text), { traceparent, tracestate: "a=1" });
    const params: unknown = Reflect.get(Object(value), "params") ?? {};
    const meta: unknown = Reflect.get(Object(params), "_meta") ?? {};
    expect(valueOf(traced)).toEqual({
      ...Object(value),
      params: { ...Object(params), _meta: { ...Object(meta), traceparent, tracestate: "a=1" } },
    });
  });

  it("keeps every other byte: numbers too big for JavaScript, spaces, escapes", () => {
    const text = String.raw`{"id":12345678901234567890, "jsonrpc":"2.0","method":"tools/call","params":{"x":1.50,"_meta":{"traceparent":"${before}", "a":"\u00e9"}}}`;
    expect(textOf(withTraceMeta(messageFrom(text), { traceparent }))).toBe(text.replace(before, traceparent));
  });

  it("loses a state that belongs to another parent", () => {
    const message = requestOf("ping", { _meta: { traceparent: before, tracestate: "a=1" } });
    expect(valueOf(withTraceMeta(message, { traceparent }))).toEqual({
      ...Object(valueOf(message)),
      params: { _meta: { traceparent } },
    });
  });

  it("stays as it is if its _meta is not an object", () => {
    const odd = messageFrom(`{"jsonrpc":"2.0","id":1,"method":"a/b","params":{"_meta":"x"}}`);
    expect(withTraceMeta(odd, { traceparent })).toBe(odd);
  });

  it("can come from a batch, without its other members", () => {
    const batch = `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`;
    const outcome = parse(Buffer.from(batch), { revision: "2025-03-26", mode: "enforce" });
    const member = outcome.ok && outcome.form === "batch" ? outcome.members[1] : undefined;
    const message = member?.ok === true ? member.message : undefined;
    expect(message === undefined ? undefined : valueOf(withTraceMeta(message, { traceparent }))).toEqual({
      jsonrpc: "2.0",
      id: 2,
      method: "ping",
      params: { _meta: { traceparent } },
    });
  });

  it("keeps everything else, for any content", () => {
    const names = fc.string().filter((name) => name !== "_meta" && name !== "__proto__");
    fc.assert(
      fc.property(fc.dictionary(names, fc.jsonValue()), fc.boolean(), (params, hasMeta) => {
        const meta = { a: 1 };
        const message = requestOf("tools/call", hasMeta ? { ...params, _meta: meta } : params);
        const expected = { ...params, _meta: { ...(hasMeta ? meta : {}), traceparent } };
        const traced = valueOf(withTraceMeta(message, { traceparent }));
        expect(traced).toEqual(
          JSON.parse(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: expected })),
        );
      }),
    );
  });
});
