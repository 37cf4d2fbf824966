import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { redactText, type Detector } from "./detector.ts";
import { detectPersonalData, personalPatterns } from "./personal-data.ts";
import { detectSecrets, secretPatterns } from "./secrets.ts";

function kindsIn(detect: Detector, text: string): readonly string[] {
  return [...new Set(detect(text).map(({ kind }) => kind))];
}

const many = (length: number): string => "aB3".repeat(length).slice(0, length);

describe("secrets", () => {
  it.each([
    ["aws-access-key", "AKIAIOSFODNN7EXAMPLE"],
    ["github-token", `ghp_${many(36)}`],
    ["github-token", `github_pat_${many(82)}`],
    ["gitlab-token", `glpat-${many(20)}`],
    ["slack-token", `xoxb-123456789012-${many(24)}`],
    ["stripe-key", `sk_live_${many(24)}`],
    ["model-api-key", `sk-ant-api03-${many(40)}`],
    ["google-api-key", `AIza${many(35)}`],
    ["npm-token", `npm_${many(36)}`],
    ["pypi-token", `pypi-${many(60)}`],
    ["json-web-token", `eyJ${many(20)}.eyJ${many(30)}.${many(43)}`],
    ["url-password", "postgres://user:pass@db.example/x"],
    ["private-key", "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----"],
    ["private-key", "-----BEGIN PRIVATE KEY-----\nMIIE, cut off"],
  ])("are found: %s in %s", (kind, secret) => {
    for (const text of [secret, `before ${secret} behind`, `"${secret}"`]) {
      expect(kindsIn(detectSecrets, text)).toEqual([kind]);
    }
    expect(redactText(`<${secret}>`, detectSecrets)).not.toContain(secret.slice(4, 20));
  });

  it.each([
    "task-list-of-the-whole-department-of-works",
    "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
    "https://example.com:8080/a@b",
    "the sk- prefix, npm_install and AKIA alone",
    "a1b2c3d4e5f6a7b8c9d0e1f2a3b4c5d6e7f8a9b0",
  ])("are not found in %s", (text) => {
    expect(kindsIn(detectSecrets, text)).toEqual([]);
  });

  it("between two others are found, and each is replaced", () => {
    const key = "-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----";
    const text = `${key}\nAKIAIOSFODNN7EXAMPLE\n${key}`;
    expect(redactText(text, detectSecrets)).toBe(
      "[redacted: private-key]\n[redacted: aws-access-key]\n[redacted: private-key]",
    );
  });
});

describe("personal data", () => {
  it.each([
    ["mail-address", "ann.lee+x@mail.example.com"],
    ["card-number", "4111111111111111"],
    ["card-number", "5500 0000 0000 0004"],
    ["iban", "DE89 3704 0044 0532 0130 00"],
    ["iban", "GB82WEST12345698765432"],
    ["social-security-number", "123-45-6789"],
    ["phone-number", "+49 (30) 901820"],
    ["phone-number", "+14155550123"],
  ])("is found: %s in %s", (kind, value) => {
    expect(kindsIn(detectPersonalData, `it is ${value}, I think`)).toEqual([kind]);
    expect(redactText(`it is ${value}.`, detectPersonalData)).toBe(`it is [redacted: ${kind}].`);
  });

  it.each([
    "4111111111111112",
    "DE89 3704 0044 0532 0130 01",
    "000-12-3456, 666-12-3456, 900-12-3456",
    "user@localhost, @handle, a@b",
    "2026-11-15T12:00:00Z, 1.2.3.4, 3.14159265358979323846",
    "0000000000000000",
    "3 + 4 = 7",
  ])("is not found in %s", (text) => {
    expect(kindsIn(detectPersonalData, text)).toEqual([]);
  });
});

/** Pieces of which findings are made, so that many come about, and more almost do. */
const piece = fc.constantFrom(
  "AKIAIOSFODNN7EXAMPLE",
  "eyJhbGciOiJIUzI1NiJ9",
  ".eyJzdWIiOiIxMjM0NTY3ODkwIn0",
  "-----BEGIN PRIVATE KEY-----",
  "-----END PRIVATE KEY-----",
  "://user:pass@",
  "ann@example.com",
  "@",
  ".",
  "-",
  "+49",
  "4111111111111111",
  "DE89370400440532013000",
  "123-45-6789",
  " ",
  "a",
  "7",
  "\n",
  "\u{1F600}",
);

describe("detectors", () => {
  it("have no pattern with a repetition that is not bounded", () => {
    const open = [...secretPatterns, ...personalPatterns].filter(({ form }) =>
      /(?<!\\)[*+](?![^[]*\])|\{\d+,\}/u.test(form.source.replaceAll(/\\./gu, "x").replaceAll(/\[[^\]]*\]/gu, "c")),
    );
    expect(open).toEqual([]);
  });

  it("leave every text without findings as it is, and none with", () => {
    fc.assert(
      fc.property(
        fc.array(piece).map((pieces) => pieces.join("")),
        (text) => {
          for (const detect of [detectSecrets, detectPersonalData]) {
            const clean = redactText(text, detect);
            expect(detect(clean)).toEqual([]);
            if (detect(text).length === 0) expect(clean).toBe(text);
          }
        },
      ),
    );
  });
});
