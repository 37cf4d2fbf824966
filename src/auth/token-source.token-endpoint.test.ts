import { describe, expect, it } from "vitest";

import { createClientAuthentication } from "./token-source.ts";

describe("the gateway as a client", () => {
  it("shows its secret in the header, encoded before it is joined (RFC 6749 section 2.3.1)", () => {
    const { headers, fields } = createClientAuthentication({
      clientId: "a:b",
      clientSecret: "c d%",
      method: "basic",
    });
    expect(headers).toEqual({ authorization: `Basic ${Buffer.from("a%3Ab:c+d%25").toString("base64")}` });
    expect(fields).toEqual([]);
  });

  it("shows it in the form where the server wants that, and its name alone without one", () => {
    expect(createClientAuthentication({ clientId: "a", clientSecret: "s", method: "post" })).toEqual({
      headers: {},
      fields: [
        ["client_id", "a"],
        ["client_secret", "s"],
      ],
    });
    expect(createClientAuthentication({ clientId: "a", method: "basic" }).fields).toEqual([["client_id", "a"]]);
  });
});
