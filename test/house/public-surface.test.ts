import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { describe, expect, it } from "vitest";

import { entryPoints, readPublicApi } from "../../scripts/generate/public-api.ts";

const root = resolve(import.meta.dirname, "../..");
const api = readPublicApi();

/** What users of each entry point call first. */
const firstCalls: Readonly<Record<string, readonly string[]>> = {
  headgate: ["createGateway", "loadConfig", "defineInterceptor"],
  "headgate/protocol": ["parse", "metadataOf", "replaceMember"],
  "headgate/server-kit": ["createServerKit", "startServerKit", "defineEntity", "defineTool", "toExpress", "listen"],
  "headgate/agent-kit": ["createServer", "tool", "query", "startAgent"],
  "headgate/testing": ["mockFrom", "startMockAuthZen", "startMockPingAuthorize"],
};

describe.each(entryPoints)("$specifier", ({ specifier, source }) => {
  const names = api.get(specifier) ?? [];

  it("is an entry point of package.json", () => {
    const { exports } = JSON.parse(readFileSync(resolve(root, "package.json"), "utf8")) as {
      exports: Record<string, { readonly types: string }>;
    };
    const types = exports[specifier.replace("headgate", ".")]?.types;
    expect(types).toBe(source.replace("src/", "./dist/").replace(/\.ts$/u, ".d.ts"));
  });

  it("exports every type that its signatures name", () => {
    const missing = names.flatMap(({ name, unnameable }) => unnameable.map((type) => `${name} needs ${type}`));
    expect(missing).toEqual([]);
  });

  it("has a doc comment on every export, and an example on what users call first", () => {
    expect(names.filter(({ summary }) => summary === "").map(({ name }) => name)).toEqual([]);
    const without = (firstCalls[specifier] ?? []).filter(
      (call) => !names.some(({ name, examples }) => name === call && examples.length > 0),
    );
    expect(without).toEqual([]);
  });

  it("has the signature of every export in its reference page", () => {
    const file = `docs/reference/api/${specifier.replace("headgate/", "")}.md`;
    const page = readFileSync(resolve(root, file), "utf8");
    expect(
      names.filter(
        ({ name, kind, signature }) => !page.includes(`## ${name} (${kind})\n`) || !page.includes(signature),
      ),
    ).toEqual([]);
  });

  it("is listed in the API reference", () => {
    const page = readFileSync(resolve(root, "docs/reference/api.md"), "utf8");
    const [, section = ""] = page.split(`## \`${specifier}\`\n`);
    const [own = ""] = section.split("\n## ");
    expect(names.filter(({ name }) => !own.includes(`| [\`${name}\`](`)).map(({ name }) => name)).toEqual([]);
  });
});
