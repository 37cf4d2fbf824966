import { describe, expect, it } from "vitest";

import { checkInlineOptions, configArgument } from "./inline-config.ts";

describe("the configuration that run and stdio are given", () => {
  it.each(["headgate.yaml", "a/b.yml", "servers.json", "mcp.jsonc", "config.TOML"])("may be a word: %s", (file) => {
    expect(configArgument([file], undefined)).toBe(file);
    expect(configArgument([], file)).toBe(file);
  });

  it("is one file, and other words are refused with what they were probably meant to be", () => {
    expect(configArgument([], undefined)).toBeUndefined();
    expect(() => configArgument(["a.yaml", "b.yaml"], undefined)).toThrow("expected one FILE");
    expect(() => configArgument(["a.yaml"], "b.yaml")).toThrow("expected one FILE");
    expect(() => configArgument(["npx", "a.json"], undefined)).toThrow(
      "unexpected argument `npx`; put `--` before a command to start",
    );
    expect(() => configArgument(["http://a.example/mcp"], undefined)).toThrow(
      "name a server with `--upstream http://a.example/mcp`",
    );
  });
});

it("a command is expected where nothing follows --", () => {
  expect(() => checkInlineOptions({ program: [] })).toThrow("expected a command after --");
  expect(() => checkInlineOptions({ program: ["", "x"] })).toThrow("expected a command after --");
  expect(() => checkInlineOptions({ program: ["npx"], env: ["A=1"] })).not.toThrow();
});
