import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { secretCorpus, secretDetectors } from "../../test/support/secret-corpus.ts";
import { holdsNoSecret } from "./prefilter.ts";
import { createRedactor } from "./redactor.ts";
import { nameEndings, secretHints, wholeNames } from "./secret-names.ts";

const isPlain = (text: string): boolean => {
  const bytes = Buffer.from(`..${text}..`);
  return holdsNoSecret(bytes, 2, bytes.length - 2);
};
const finds = (text: string): boolean =>
  text.includes("\\") ||
  secretHints.test(text) ||
  Object.values(secretDetectors).some((detect) => detect(text).length > 0);

const letters = 'abyzeyJAIKZ059 _-.:@+(){}[],"/';
const pieces = fc.oneof(
  fc.string({ unit: fc.constantFrom(...letters.split("")) }),
  fc.string({ unit: fc.constantFrom(..."0123456789 -.+()".split("")), maxLength: 24 }),
  fc.string({ unit: fc.constantFrom(..."ABCXYZ0123456789 ".split("")), maxLength: 30 }),
  fc.string({ unit: "binary", maxLength: 10 }),
  fc.constantFrom(
    ..."password PassWd passcode passphrase pwd secret accessToken api_key private-key authorization".split(" "),
    ..."credentials Cookie Bearer Basic requestState otp cooKie \u017Fecret".split(" "),
  ),
  fc.constantFrom(...secretCorpus.map(([, secret]) => secret)),
);

describe("the first look at a message", () => {
  it("[SC-069] never passes a text with a secret", () => {
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 5 }), fc.constantFrom("", " ", ","), (parts, between) => {
        const text = parts.join(between);
        if (isPlain(text)) expect(finds(text)).toBe(false);
      }),
      { numRuns: 3000 },
    );
  });

  it.each(secretCorpus)("[SC-069] lets no %s pass", (_kind, secret) => {
    expect(isPlain(secret)).toBe(false);
    expect(isPlain(`{"text":"see ${secret}, or not"}`)).toBe(false);
  });

  it.each(["eyJabcdefghijkl.eyJabcdefghijkl.", "AIzaabcdefghijklmnopqrstuvwxyzabcdefghijk", "ABCDEFGHIJKLMNOP"])(
    "has a closer look at %s, which has no digit",
    (text) => {
      expect(isPlain(text)).toBe(false);
    },
  );

  it("[SC-069] finds every name of a secret, with any separators", () => {
    const redactor = createRedactor({ detectors: {}, key: Buffer.from("k"), prefilter: holdsNoSecret });
    fc.assert(
      fc.property(
        fc.constantFrom(...wholeNames, ...nameEndings),
        fc.array(fc.constantFrom("", "", "", "_", "-", ".", " ", "/"), { minLength: 15, maxLength: 15 }),
        fc.boolean(),
        (name, separators, isUpper) => {
          const spread = Array.from(name, (letter, at) => `${letter}${separators[at] ?? ""}`).join("");
          const member = isUpper ? spread.toUpperCase() : spread;
          const text = `{"params":{"${member}":"hunter2"}}`;
          const bytes = Buffer.from(text);
          expect(redactor.json(text).text).not.toContain("hunter2");
          expect(redactor.jsonBytes(bytes, 0, bytes.length)?.text ?? text).not.toContain("hunter2");
        },
      ),
      { numRuns: 2000 },
    );
  });

  it("passes ordinary messages", () => {
    const said = [
      '{"jsonrpc":"2.0","id":12345678,"method":"tools/call","params":{"name":"echo","arguments":{"text":"it is 12.5 km"}}}',
      '{"jsonrpc":"2.0","id":7,"result":{"structuredContent":{"city":"Bern"},"content":[{"type":"text","text":"fine"}]}}',
    ];
    for (const text of said) expect(isPlain(text)).toBe(true);
  });

  it("[SC-069] is not used for names in the configuration", () => {
    const redactor = createRedactor({
      detectors: secretDetectors,
      key: Buffer.from("k"),
      keys: ["diagnosis"],
      prefilter: holdsNoSecret,
      known: (text) => text.replaceAll("hunter", "[known]"),
    });
    const bytes = Buffer.from('{"params":{"diagnosis":"flu","who":"hunter"}}');
    const clean = redactor.jsonBytes(bytes, 0, bytes.length);
    expect(clean?.text).not.toContain("flu");
    expect(clean?.text).toContain("[known]");
    expect(clean?.count).toBe(2);
  });
});
