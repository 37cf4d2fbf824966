import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { requestFacts } from "../../../test/support/mock-pingauthorize.ts";
import { composeUrl, encodePath, parseHttpUrl, reencodeQuery } from "./http-format.ts";

describe("the URL of a payload", () => {
  it("[PA-045] always has the port, also the scheme's own", () => {
    expect(composeUrl(requestFacts({ path: "/resource" }))?.url).toBe("https://api.example.com:443/resource");
    expect(composeUrl(requestFacts({ scheme: "http", port: 8080 }))?.url).toBe("http://api.example.com:8080/mcp");
  });

  it.each([
    ["/a b", "/a%20b"],
    ["/ø", "/%C3%B8"],
    ["/a%2Fb", "/a%2Fb"],
    ["/100%", "/100%25"],
    ["/a?b#c", "/a%3Fb%23c"],
    ["/a:b@c!$&'()*+,;=[]~", "/a:b@c!$&'()*+,;=[]~"],
    ["/😀", "/%F0%9F%98%80"],
  ])("[PA-045] encodes the path %s as %s", (path, encoded) => {
    expect(encodePath(path)).toBe(encoded);
  });

  it("[PA-045] has no URL for a path that was not UTF-8", () => {
    expect(composeUrl(requestFacts({ path: "/\uFFFD" }))).toBeUndefined();
  });

  it("[PA-046] has a query only where there is one", () => {
    expect(composeUrl(requestFacts({ query: "" }))?.url).not.toContain("?");
    expect(composeUrl(requestFacts({ query: "&&" }))?.url).not.toContain("?");
    expect(composeUrl(requestFacts({ query: "a=1&b" }))?.url).toBe("https://api.example.com:443/mcp?a=1&b");
  });

  it.each([
    ["a=1&a=2&b=", "a=1&a=2&b="],
    ["q=a+b%20c", "q=a%20b%20c"],
    ["q=%7e%41", "q=~A"],
    ["q=%ff%2b", "q=%FF%2B"],
    ["q=ø", "q=%C3%B8"],
    ["flag&x=y=z", "flag&x=y%3Dz"],
    ["q=50%", "q=50%25"],
    ["z=1&a=2", "z=1&a=2"],
  ])("[PA-046] decodes and encodes the query %s as %s", (raw, query) => {
    expect(reencodeQuery(raw)).toEqual({ query, omitted: 0 });
  });

  it("[PA-047] leaves out what comes after a hundred arguments, and counts it", () => {
    const raw = Array.from({ length: 103 }, (_, index) => `a${index}=1`).join("&");
    const { query, omitted } = reencodeQuery(raw);
    expect(query.split("&")).toHaveLength(100);
    expect(query.endsWith("a99=1")).toBe(true);
    expect(omitted).toBe(3);
  });

  it("[PA-046] encodes what it encoded to the same text", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme" }), (raw) => {
        const { query } = reencodeQuery(raw);
        expect(reencodeQuery(query).query).toBe(query);
      }),
    );
  });
});

describe("the URL of an answer", () => {
  it("[PA-079] gets the default port of its scheme", () => {
    expect(parseHttpUrl("https://a.example/x")?.port).toBe(443);
    expect(parseHttpUrl("http://a.example/x")?.port).toBe(80);
    expect(parseHttpUrl("HTTPS://A.example:8443")).toEqual({
      scheme: "https",
      host: "a.example",
      port: 8443,
      path: "/",
      query: "",
    });
  });

  it("is taken apart without being normalised", () => {
    expect(parseHttpUrl("https://a:1/x/../y%2F?b=c&d#e")).toMatchObject({
      path: "/x/../y%2F",
      query: "b=c&d",
    });
    expect(parseHttpUrl("http://[::1]:8080/")).toMatchObject({ host: "[::1]", port: 8080 });
  });

  it.each([
    "",
    "/relative",
    "https://",
    "https://user@host/",
    "ftp://host/",
    "https://host:99999/",
    "https://host:0/",
    "http://a b/",
    "https://bücher.example/",
    "https://\u212Aong.example/",
    String.raw`https://a\b/`,
    "https://[::1%25eth0]/",
  ])("[PA-210] is none: %s", (text) => {
    expect(parseHttpUrl(text)).toBeUndefined();
  });

  it("[PA-210] carries no character that a header or a request line cannot, wherever the policy puts it", () => {
    const unsafe = fc.constantFrom(...Array.from("\0\t\n\r\v \u007F\u0085\u00A0é\u2028\uFEFF\uD800😀"));
    const place = fc.constantFrom("https://a!.example/", "https://a.example/x!y", "https://a.example/x?y=!z");
    fc.assert(
      fc.property(place, fc.array(unsafe, { minLength: 1 }), (url, text) => {
        const parts = parseHttpUrl(url.replace("!", text.join("")));
        expect(`${parts?.host}${parts?.path}${parts?.query}`).toMatch(/^[!-~]*$/u);
      }),
    );
  });
});
