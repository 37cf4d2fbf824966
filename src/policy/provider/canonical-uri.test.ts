import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { exchangeWith, valueOf } from "../../../test/support/exchange.ts";
import { notificationOf, requestOf } from "../../../test/support/messages.ts";
import { answering, createPolicyBench } from "../../../test/support/policy.ts";
import { canonicalUri } from "./canonical-uri.ts";

const special = fc.constantFrom("http", "https", "ws", "wss", "ftp");
const word = fc.stringMatching(/^[a-z][a-z\d_~-]{0,8}$/u);
const segment = fc.oneof(word, fc.constantFrom("a%20b", "caf%C3%A9", "x.txt", "...", ".a", "a:b", "a@b", "%25", "%7C"));
const path = fc.array(segment, { minLength: 1, maxLength: 4 }).map((parts) => `/${parts.join("/")}`);
const host = fc.oneof(
  fc
    .array(
      word.filter((label) => !/[_~]|-$|--/u.test(label)),
      { minLength: 1, maxLength: 3 },
    )
    .map((labels) => labels.join(".")),
  fc.constant("127.0.0.1"),
  fc.constant("[::1]"),
);
const query = fc.constantFrom("", "?a=b", "?a=%2F", "#c", "?a=b#c");
const canonicalUris = fc.oneof(
  fc.tuple(special, host, path, query).map(([scheme, at, names, rest]) => `${scheme}://${at}${names}${rest}`),
  path.map((names) => `file://${names}`),
  fc.tuple(word, path).map(([at, names]) => `vault://${at}${names}`),
);

const defaultPorts: Readonly<Record<string, string>> = { http: "80", ws: "80", https: "443", wss: "443", ftp: "21" };
const fullWidth = (text: string): string =>
  text.replaceAll(/[a-z]/gu, (letter) => String.fromCodePoint((letter.codePointAt(0) ?? 0) + 0xfee0));

/** Ways to write a URI so that some reader sees the same one. */
const disguises: Readonly<Record<string, (uri: string) => string>> = {
  "scheme in capitals": (uri) => uri.replace(/^[a-z]+/u, (scheme) => scheme.toUpperCase()),
  "blank before": (uri) => ` ${uri}`,
  "line feed behind": (uri) => `${uri}\n`,
  "tab inside": (uri) => `${uri.slice(0, 3)}\t${uri.slice(3)}`,
  "one slash": (uri) => (uri.startsWith("vault") ? uri : uri.replace(/:\/\/\/?/u, ":/")),
  "no slash": (uri) => (uri.startsWith("vault") ? uri : uri.replace(/:\/\/\/?/u, ":")),
  "three slashes more": (uri) => (uri.startsWith("vault") ? uri : uri.replace("://", "://///")),
  backslashes: (uri) => (uri.startsWith("vault") ? uri : uri.replace(/:\/\//u, ":\\\\")),
  "default port": (uri) =>
    uri.replace(/^(\w+)(:\/\/[^/]+)/u, (all, scheme: string, rest: string) =>
      defaultPorts[scheme] === undefined ? all : `${scheme}${rest}:${defaultPorts[scheme]}`,
    ),
  "empty port": (uri) => uri.replace(/^(\w+:\/\/[^/]+)/u, "$1:"),
  "empty credentials": (uri) => uri.replace(/^(\w+:\/\/)(?=[^/])/u, "$1@"),
  credentials: (uri) => uri.replace(/^(\w+:\/\/)(?=[^/])/u, "$1ann:pw@"),
  "local host": (uri) => uri.replace(/^file:\/\//u, "file://localhost"),
  "other host": (uri) => uri.replace(/^file:\/\//u, "file://elsewhere"),
  "query on a file": (uri) => (uri.startsWith("file:") ? `${uri}?x` : uri),
  "fragment on a file": (uri) => (uri.startsWith("file:") ? `${uri}#x` : uri),
  "dot segment": (uri) => uri.replace(/(?<=\w|\])\//u, "/./"),
  "two dots": (uri) => uri.replace(/(?<=[\w\]]|file:\/\/)\//u, "/x/../"),
  "encoded dots": (uri) => uri.replace(/(?<=[\w\]]|file:\/\/)\//u, "/x/%2e%2E/"),
  "encoded slash": (uri) => uri.replace(/^(\w+:\/\/[^/]*\/[^/?#]+)\/(?=[^/?#])/u, "$1%2f"),
  "encoded letter": (uri) => uri.replace(/[a-z](?=[^/]*$)/u, (letter) => `%${letter.charCodeAt(0).toString(16)}`),
  "raw blank": (uri) => uri.replace("%20", " "),
  "raw letters": (uri) => uri.replace("%C3%A9", "\u00e9"),
  "small encodings": (uri) => uri.replaceAll(/%../gu, (escape) => escape.toLowerCase()),
  "raw bar": (uri) => uri.replace("%7C", "|"),
  "stray percent": (uri) => uri.replace(/%25$/u, "%"),
  "host in capitals": (uri) => (uri.startsWith("vault") ? uri : uri.replace(/:\/\/[^/]+/u, (at) => at.toUpperCase())),
  "host in full width": (uri) => (uri.startsWith("vault") ? uri : uri.replace(/:\/\/[a-z][^/]*/u, fullWidth)),
  "host with a soft hyphen": (uri) => uri.replace(/^(https?:\/\/[a-z])(?=[a-z])/u, "$1\u00ad"),
  "host with ideographic full stops": (uri) =>
    uri.replace(/^https?:\/\/[a-z.]+/u, (at) => at.replaceAll(".", "\u3002")),
  "host with a dot behind": (uri) => uri.replace(/^(https?:\/\/[a-z][^/]*)/u, "$1."),
  "short address": (uri) => uri.replace("//127.0.0.1/", "//127.1/"),
  "hexadecimal address": (uri) => uri.replace("//127.0.0.1/", "//0x7f.0.0.1/"),
  "address as a number": (uri) => uri.replace("//127.0.0.1/", "//2130706433/"),
  "long address": (uri) => uri.replace("//[::1]/", "//[0:0:0:0:0:0:0:1]/"),
};
const spellings = fc
  .tuple(canonicalUris, fc.uniqueArray(fc.constantFrom(...Object.keys(disguises)), { minLength: 1, maxLength: 3 }))
  .map(([uri, names]) => names.reduce((text, name) => disguises[name]?.(text) ?? text, uri));

describe("canonicalUri", () => {
  it.each([
    "file:///data/config.json",
    "https://example.com/",
    "https://example.com/a?b=%20c#d",
    "https://example.com:8443/a%3Ab?q=x%2Fy",
    "note://Caf%C3%A9/Ein%20Zettel",
    "urn:isbn:0451450523",
    "mailto:ann@example.com",
    "test://Static-Text",
    "a:..b/...",
    "ui://x/y?a=/../b",
    "screen://localhost/~me",
    "status",
  ])("takes %s", (uri) => {
    expect(canonicalUri(uri)).toBe(uri);
  });

  it.each([
    ["https://example.com", "https://example.com/"],
    ["vault://a/%2e%2e/secret", "vault://a/secret"],
    ["vault://user@secret/a", "vault://secret/a"],
    ["vault://a/b%2fc", "vault://a/b/c"],
    ["vault:a b", "vault:a%20b"],
    ["vault://secret\u0000", "vault://secret"],
    ["file:///C|/x", "file:///C:/x"],
    ["file:///etc//passwd", "file:///etc/passwd"],
    ["file:///a%40b", "file:///a@b"],
    ["https://", undefined],
    ["https://exa mple/", undefined],
  ])("folds %j to %j", (uri, canonical) => {
    expect(canonicalUri(uri)).toBe(canonical);
  });

  it("takes what is canonical, and nothing else that a URL parser folds to it", () => {
    fc.assert(
      fc.property(canonicalUris, (uri) => {
        expect(canonicalUri(uri)).toBe(uri);
      }),
    );
    fc.assert(
      fc.property(spellings, (uri) => {
        const canonical = canonicalUri(uri);
        if (canonical !== undefined) expect(canonicalUri(canonical)).toBe(canonical);
        if (URL.canParse(uri) && new URL(uri).href !== uri) expect(canonical).not.toBe(uri);
      }),
      { numRuns: 300 },
    );
  });

  it.each(Object.entries(disguises))("folds every disguise to the one spelling: %s", (_, disguise) => {
    fc.assert(
      fc.property(canonicalUris, (uri) => {
        expect(canonicalUri(disguise(uri))).toBe(uri);
      }),
    );
  });

  it("takes no URI that is too long to be a name", () => {
    const uri = (length: number) => `vault://a/${"b".repeat(length - 10)}`;
    expect([65_536, 65_537].map((length) => canonicalUri(uri(length))?.length)).toEqual([65_536, undefined]);
  });

  it("stays a URL that parsers leave alone, whatever it was", () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string({ unit: "binary" }),
          fc.webUrl({ withQueryParameters: true, withFragments: true }),
          spellings,
        ),
        (uri) => {
          const canonical = canonicalUri(uri);
          if (canonical === undefined) return;
          expect(canonicalUri(canonical)).toBe(canonical);
          if (URL.canParse(canonical)) expect(new URL(canonical).href).toBe(canonical);
        },
      ),
      { numRuns: 300 },
    );
  });
});

describe("a URI in another spelling", () => {
  const denied = "file:///etc/passwd";

  it("meets the decision about the canonical one: nothing is sent, linked, listed, updated or completed", async () => {
    await fc.assert(
      fc.asyncProperty(fc.constantFrom(...Object.keys(disguises)), async (name) => {
        const uri = disguises[name]?.(denied) ?? denied;
        const sees = (seen: string): boolean => seen !== denied;
        const content = [
          { type: "resource_link", uri, name: "x" },
          { type: "resource", resource: { uri, text: "x" } },
        ];
        const answers: Readonly<Record<string, unknown>> = {
          "tools/call": { content },
          "resources/list": { resources: [{ uri, name: "x" }] },
          "resources/read": { contents: [{ uri, text: "x" }] },
        };
        const bench = createPolicyBench({ sees }, async (exchange) =>
          answering(answers[exchange.message.method ?? ""] ?? {})(exchange),
        );
        const ask = async (method: string, params: unknown) =>
          valueOf((await bench.handle(exchangeWith(requestOf(method, params)))).message);
        expect(await ask("tools/call", { name: "t" })).toMatchObject({ result: { content: [] } });
        expect(await ask("resources/list", {})).toMatchObject({ result: { resources: [] } });
        expect(await ask("resources/read", { uri: "file:///etc/hosts" })).toMatchObject({ result: { contents: [] } });
        const sent = bench.sent.length;
        const update = notificationOf("notifications/resources/updated", { uri });
        await bench.handle(exchangeWith(update, { direction: "server-to-client" }));
        const ref = { type: "ref/resource", uri };
        expect(await ask("completion/complete", { ref, argument: { name: "a", value: "" } })).toHaveProperty("error");
        expect(bench.sent).toHaveLength(sent);
      }),
      { numRuns: 60 },
    );
  });
});

describe("a request about a resource", () => {
  it.each(["resources/read", "resources/subscribe", "resources/unsubscribe"])(
    "is refused where its URI has another plain form: %s",
    async (method) => {
      const bench = createPolicyBench({});
      const reply = await bench.handle(exchangeWith(requestOf(method, { uri: "VAULT://secret" })));
      expect(bench.sent).toHaveLength(0);
      expect(valueOf(reply.message)).toMatchObject({
        error: {
          code: -32602,
          data: { reason: "uri_not_canonical" },
          message: expect.stringContaining("Write it as vault://secret"),
        },
      });
    },
  );
});
