import { inspect } from "node:util";

import { describe, expect, it } from "vitest";

import { parseConfig } from "./load.ts";
import type { ConfigInput } from "./schema.ts";
import { createReloadableSecrets, createSecrets, mask, redactedConfig } from "./secrets.ts";

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

describe("a configuration that is shown", () => {
  function shown(input: ConfigInput, env = {}): string {
    const result = parseConfig(input, env);
    return JSON.stringify(result.ok ? redactedConfig(result.config) : result.problems);
  }

  it("masks headers and environment variables, wherever the route came from", () => {
    const text = shown({
      upstream: { url: "https://a.example/mcp", headers: { "X-Key": "hunter-one" } },
      routes: { b: { upstream: { command: "b", env: { KEY: "hunter-two" } } } },
      mcpServers: { c: { url: "https://c.example", headers: { Authorization: "Bearer hunter-three" } } },
    });
    expect(text).not.toContain("hunter");
    expect(text).toContain(`"headers":{"x-key":"${mask}"}`);
    expect(text).toContain(`"env":{"KEY":"${mask}"}`);
    expect(text).toContain("https://a.example/mcp");
  });

  it("masks the credentials of a proxy", () => {
    const text = shown({ upstream: { url: "https://a.example" } }, { HTTPS_PROXY: "http://me:hunter@proxy:1" });
    expect(text).not.toContain("hunter");
    expect(text).toContain(`"proxy":"http://${mask}@proxy:1"`);
  });

  it("is plain data even with an in-process server", () => {
    const server = () => ({ connect: async () => {}, close: async () => {} });
    expect(shown({ upstream: { server } })).toContain('"server":"(function)"');
  });
});
