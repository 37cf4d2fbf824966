import { existsSync, readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";

import { describe, expect, it } from "vitest";

import { authZenConfig } from "../support/fake-authzen.ts";
import { startProcess } from "../support/process.ts";

const root = resolve(import.meta.dirname, "../..");
const path = resolve(root, "docs/guides/authzen.md");
const guide = readFileSync(path, "utf8");

describe("the example with an AuthZEN decision point", () => {
  it("runs end to end: lists, calls and refusals come out as its policy says", async () => {
    await using example = await startProcess([process.execPath, resolve(root, "examples/authzen/run.ts")]);
    const { code } = await example.exited;
    expect([code, example.output()]).toEqual([0, expect.stringContaining("every policy did what it says")]);
  });
});

describe("the guide about AuthZEN", () => {
  it("has every setting", () => {
    const missing = Object.keys(authZenConfig()).filter((name) => !guide.includes(`| \`${name}\``));
    expect(missing).toEqual([]);
  });

  it("has every default mapping, every obligation, and what happens on each failure", () => {
    for (const text of [
      "`initialize`",
      "`tools/call`",
      "`completion/complete`",
      "`logging/setLevel`",
      "`sampling/createMessage`",
      "`step-up`",
      "`redact_arguments`",
      "`remove_arguments`",
      "`redact_result`",
      "`remove_result`",
      "`note`",
      "−32001",
      "−32602",
      "−32603",
    ])
      expect(guide).toContain(text);
  });

  it("leads to files that are there", () => {
    const links = [...guide.matchAll(/\]\((?!https?:)(?<to>[^)#]+)/gu)].map(({ groups }) => groups?.["to"] ?? "");
    expect(links.length).toBeGreaterThan(1);
    expect(links.filter((to) => !existsSync(resolve(dirname(path), to)))).toEqual([]);
  });
});
