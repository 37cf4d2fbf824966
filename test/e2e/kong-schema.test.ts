import { resolve } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { pluginDump } from "../../src/kong/plugin-definition.ts";
import { parseSidebandSettings } from "../../src/policy/sideband/settings.ts";
import { runLua, toLua } from "../support/fake-kong/luajit.ts";
import { plainSettings } from "../support/mock-pingauthorize.ts";

const script = resolve(import.meta.dirname, "../support/fake-kong/patterns.lua");

function rulesOf(setting: string): unknown {
  const [{ Schema }] = JSON.parse(JSON.stringify(pluginDump({ accessOnly: false }))) as [
    { readonly Schema: { readonly fields: readonly [{ readonly config: { readonly fields: readonly object[] } }] } },
  ];
  return Object.assign({}, ...Schema.fields[0].config.fields)[setting] as unknown;
}

/** Which texts Kong takes for a setting, decided by its Lua patterns. */
function takenByKong(setting: string, texts: readonly string[]): readonly boolean[] {
  const printed = runLua(script, `return ${toLua({ rules: rulesOf(setting), texts })}`);
  return printed
    .trim()
    .split("\n")
    .map((line) => line === "1");
}

function isTakenByUs(setting: string, text: string): boolean {
  try {
    parseSidebandSettings({ ...plainSettings, [setting]: text });
    return true;
  } catch {
    return false;
  }
}

function expectAgreement(setting: string, texts: readonly string[]): void {
  const kong = takenByKong(setting, texts);
  expect(texts.map((text, index) => [text, kong[index]])).toEqual(
    texts.map((text) => [text, isTakenByUs(setting, text)]),
  );
}

const good = [
  "https://pingauthorize.example.com:443/policy",
  "HTTP://127.0.0.1",
  "http://[::1]:8080/a/b/",
  "https://user:pass@pdp.example/base",
  "https://pdp/v1/environments/1",
  "https://pdp/sidebandit",
  "https://pdp/a%20b",
  "https://pdp:65535",
  "https://pdp_internal/",
];
const bad = [
  "ftp://a",
  "https://",
  "https:///policy",
  "https://:443/policy",
  "https://a/sideband",
  "https://a/SIDEBAND",
  "https://a/Sideband/Request/",
  "https://a/p/sideband/response",
  "https://a/sideband//",
  "https://a/policy?x=1",
  "https://a/policy?",
  "https://a#top",
  "https://a/pol icy",
  " https://a",
  "https://a ",
  "https://a b/",
  "https://a\\b",
  "https://ä.example",
  "https://a:65536/",
  "https://a:99999",
  "https://a:123456",
  "https://a:x/",
  "https://a/\n",
  "pdp.example",
  "//pdp.example",
];

describe("settings that Kong's schema and the plugin check alike", () => {
  it("[PA-010] [PA-011] [PA-201] a service_url", () => {
    expect(takenByKong("service_url", good)).toEqual(good.map(() => true));
    expect(takenByKong("service_url", bad)).toEqual(bad.map(() => false));
    expectAgreement("service_url", [...good, ...bad]);
  });

  it("[PA-010] [PA-011] a service_url made of any parts", () => {
    const url = fc
      .tuple(
        fc.constantFrom("http://", "https://", "HTTPS://", "ftp://", "", "http:/"),
        fc.constantFrom("", "u@", "u:p@", "a/b@"),
        fc.constantFrom("pdp", "pdp.example", "10.0.0.1", "[::1]", "[fe80::1]", "", "a b", "a_b", "-", "é"),
        fc.constantFrom("", ":", ":1", ":443", ":65535", ":65536", ":70000", ":655350", ":x"),
        fc.constantFrom(
          "",
          "/",
          "/p",
          "/p/",
          "/sideband",
          "/SideBand/",
          "/sideband/request",
          "/sideband/x",
          "/p?q",
          "/p#f",
          "/p q",
          "//",
        ),
      )
      .map((parts) => parts.join(""));
    fc.assert(
      fc.property(fc.array(url, { minLength: 50, maxLength: 50 }), (urls) => expectAgreement("service_url", urls)),
      { numRuns: 20 },
    );
  });

  it("[PA-013] a secret_header_name", () => {
    expectAgreement("secret_header_name", ["CLIENT-TOKEN", "x_y.z", "a b", "a:", "ä", "a\n", "!#$%&'*+-.^_`|~"]);
    expectAgreement("secret_header_name", [
      "HOST",
      "x-host",
      "hosts",
      "Content-Length",
      "contentXlength",
      "TraceParent",
    ]);
  });

  it("[PA-012] a shared_secret", () => {
    expectAgreement("shared_secret", ["a", "a b", "ä", "{vault://env/x}", "a\n", "\ta", " a", "a ", "a\0b", "a\u007F"]);
  });
});
