import { inspect } from "node:util";

import { describe, expect, it } from "vitest";

import { createReloadableSecrets, createSecrets, mask } from "./secrets.ts";

describe("secrets", () => {
  it("are taken out of texts, the longer ones first", () => {
    const { redact } = createSecrets(["abcdef", "abcdef-more"]);
    expect(redact("x abcdef y abcdef-more z")).toBe(`x ${mask} y ${mask} z`);
  });

  it("are found in JSON too", () => {
    const secret = 'with "quotes" and \\';
    expect(createSecrets([secret]).redact(JSON.stringify({ a: secret }))).toBe(`{"a":"${mask}"}`);
  });

  it("that are short are masked only where they are the whole text", () => {
    const { redact } = createSecrets(["1", ""]);
    expect(redact("1")).toBe(mask);
    expect(redact("127.0.0.1")).toBe("127.0.0.1");
    expect(redact("")).toBe("");
  });

  it("do not show when what knows them is printed", () => {
    expect(inspect(createSecrets(["hunter2"]), { depth: null, showHidden: true })).not.toContain("hunter2");
  });
});

describe("secrets that change", () => {
  it("are taken out as they are now and as they were before, but no longer than that", () => {
    const secrets = createReloadableSecrets(createSecrets(["first-one"]));
    expect(secrets.redact("first-one second-one")).toBe(`${mask} second-one`);
    secrets.replace(createSecrets(["second-one"]));
    expect(secrets.redact("a first-one second-one")).toBe(`a ${mask} ${mask}`);
    secrets.replace(createSecrets(["third-one"]));
    expect(secrets.redact("a first-one second-one third-one")).toBe(`a first-one ${mask} ${mask}`);
  });

  it("are taken out for as long as a part of their configuration is in use", () => {
    const secrets = createReloadableSecrets(createSecrets(["first-one"]));
    for (const next of ["second-one", "third-one", "fourth-one"]) secrets.replace(createSecrets([next]), true);
    expect(secrets.redact("a first-one second-one third-one fourth-one")).toBe(`a ${mask} ${mask} ${mask} ${mask}`);
    expect(inspect(secrets, { depth: null, showHidden: true })).not.toContain("first-one");
  });
});
