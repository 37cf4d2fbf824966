import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { exchangeWith, valueOf } from "../../../test/support/exchange.ts";
import { requestOf } from "../../../test/support/messages.ts";
import { createPolicyBench } from "../../../test/support/policy.ts";
import { nonCanonicalUriReason } from "./canonical-uri.ts";

describe("nonCanonicalUriReason", () => {
  it.each([
    "file:///data/config.json",
    "https://example.com",
    "https://example.com/a?b=%20c#d",
    "note://Caf\u00e9/Ein Zettel",
    "urn:isbn:0451450523",
    "test://Static-Text",
    "db://t/a%2Fb%3a",
    "a:..b/...",
    "ui://x/y?a=/../b",
    "screen://localhost/~me",
  ])("accepts %s", (uri) => {
    expect(nonCanonicalUriReason(uri)).toBeUndefined();
  });

  it.each([
    "VAULT://secret",
    " vault://secret",
    "vault://secret\n",
    "va\tult://secret",
    "vault://%73ecret",
    "vault://a/%2e%2e/secret",
    "vault://status/../secret",
    "vault://status/./secret",
    "https://EXAMPLE.com/",
    "https:\\\\example.com\\a",
    "vault://secret\u0000",
  ])("refuses %j", (uri) => {
    expect(nonCanonicalUriReason(uri)).toBeTypeOf("string");
  });

  it("accepts only URIs that a URL parser does not change", () => {
    const piece = fc.constantFrom("secret", "SECRET", "a", ".", "..", "%73", "%2e", "/", "\\", "\t", " ", "%2F");
    const start = fc.constantFrom("vault://h/", "VAULT://h/", "https://h/", "https://H/");
    fc.assert(
      fc.property(start, fc.array(piece), (before, pieces) => {
        const uri = before + pieces.join("");
        if (nonCanonicalUriReason(uri) !== undefined || !URL.canParse(uri)) return;
        expect(new URL(uri).href).toBe(uri.replaceAll(" ", "%20"));
      }),
    );
  });
});

describe("a request about a resource", () => {
  it.each(["resources/read", "resources/subscribe"])(
    "is refused where its URI has another plain form: %s",
    async (method) => {
      const bench = createPolicyBench({});
      const reply = await bench.handle(exchangeWith(requestOf(method, { uri: "VAULT://secret" })));
      expect(bench.sent).toHaveLength(0);
      expect(valueOf(reply.message)).toMatchObject({
        error: {
          code: -32602,
          data: { reason: "uri_not_canonical" },
          message: expect.stringContaining("capital letters"),
        },
      });
    },
  );
});
