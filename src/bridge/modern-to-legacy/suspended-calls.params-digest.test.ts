import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { messageFrom } from "../../../test/support/exchange.ts";
import type { RequestMessage } from "../../protocol/message.ts";
import { paramsDigest } from "./suspended-calls.ts";

function digestOf(params: string): string {
  const message = messageFrom(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${params}}`);
  // The text above is that of a request.
  return paramsDigest(message as RequestMessage);
}

describe("the digest of a request's params", () => {
  it("ignores spelling, the envelope and the answers", () => {
    const plain = digestOf('{"name":"a","arguments":{"x":[1,{"y":"é"}],"z":null}}');
    expect(
      digestOf(
        ' { "arguments" : {"z":null,"x":[1, {"y":"\\u00e9"}]},"requestState":"s","inputResponses":{},"_meta":{"k":1},"n\\u0061me":"a"}',
      ),
    ).toBe(plain);
  });

  it("distinguishes numbers beyond double precision", () => {
    expect(digestOf('{"n":9007199254740993}')).not.toBe(digestOf('{"n":9007199254740992}'));
  });

  it("includes nested members of the same names", () => {
    expect(digestOf('{"arguments":{"_meta":1}}')).not.toBe(digestOf('{"arguments":{}}'));
  });

  it("is equal exactly when the values are", () => {
    const value = fc.dictionary(fc.string({ unit: "binary" }), fc.jsonValue({ maxDepth: 3 }), { maxKeys: 4 });
    fc.assert(
      fc.property(value, value, (a, b) => {
        const [textA, textB] = [JSON.stringify({ arguments: a }), JSON.stringify({ arguments: b })];
        const reversed = JSON.stringify({ arguments: Object.fromEntries(Object.entries(a).toReversed()) });
        expect(digestOf(reversed)).toBe(digestOf(textA));
        if (textA === textB) expect(digestOf(textA)).toBe(digestOf(textB));
      }),
    );
  });
});
