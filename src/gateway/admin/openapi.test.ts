import { globSync, readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { openApiDocument } from "./openapi.ts";

/** The names of all members that a value has, at any depth. */
function namesIn(value: unknown): readonly string[] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([name, inner]) => [name, ...namesIn(inner)]);
}

describe("the admin API", () => {
  it("has no input that could name a program, or a server to talk to", () => {
    const { paths } = openApiDocument() as {
      readonly paths: Readonly<Record<string, Readonly<Record<string, object>>>>;
    };
    const inputs = Object.values(paths).flatMap((methods) =>
      Object.values(methods).map(({ parameters, requestBody }: { parameters?: unknown; requestBody?: unknown }) => [
        ...namesIn(requestBody),
        ...(parameters as readonly { readonly name: string }[]).map(({ name }) => name),
      ]),
    );
    expect(inputs.length).toBeGreaterThan(20);
    const forbidden = new Set([
      "command",
      "args",
      "env",
      "cwd",
      "upstream",
      "upstreams",
      "mcpServers",
      "url",
      "file",
      "config",
    ]);
    expect(inputs.flat().filter((name) => forbidden.has(name))).toEqual([]);
  });

  it("writes one file, the lock file of approved definitions", () => {
    const writing = globSync("**/*.ts", { cwd: import.meta.dirname }).filter(
      (file) =>
        !file.endsWith(".test.ts") &&
        /node:child_process|\b(?:writeFile|appendFile|createWriteStream)/u.test(
          readFileSync(`${import.meta.dirname}/${file}`, "utf8"),
        ),
    );
    expect(writing).toEqual(["endpoints/drift.ts"]);
  });
});
