import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";

import { beforeAll, describe, expect, it } from "vitest";

import { alternativesOf, configJsonSchema, type JsonSchema } from "../../src/config/json-schema.ts";
import { findPropertyReads } from "./property-reads.ts";

/** The compiler reads the whole source tree, which takes seconds; many beside other work. */
const compilerMs = 240_000;

const root = resolve(import.meta.dirname, "../..");

/** Keys that take effect while the configuration is loaded, and the file that reads them there. */
const actsOnLoading: Readonly<Record<string, string>> = {
  $schema: "src/config/resolve.ts",
  "listen.allowAnonymous": "src/config/checks/auth.ts",
  "admin.allowAnonymous": "src/config/resolve.ts",
  "auth.use": "src/config/checks/auth.ts",
  "auth.scopes": "src/config/checks/auth.ts",
  "auth.offeredScopes": "src/config/checks/auth.ts",
  // What routes have of it, or have instead of it, is read outside src/config/.
  policy: "src/config/resolve.ts",
  rates: "src/config/resolve.ts",
  validation: "src/config/resolve.ts",
  "routes.*.interceptors": "src/config/resolve.ts",
  "routes.*.upstreams": "src/config/resolve.ts",
  "routes.*.upstreams.*.prefix": "src/config/resolve.ts",
  "routes.*.upstreams.*.title": "src/config/resolve.ts",
  "routes.*.upstreams.*.tools": "src/config/resolve.ts",
  "routes.*.upstreams.*.tools.allow": "src/config/resolve.ts",
  "routes.*.upstreams.*.required": "src/config/resolve.ts",
  "routes.*.upstreams.*.uris": "src/config/resolve.ts",
  "routes.*.overrides": "src/config/resolve.ts",
  "routes.*.views": "src/config/resolve.ts",
  "routes.*.federation": "src/config/resolve.ts",
  upstream: "src/config/resolve.ts",
  mcpServers: "src/config/resolve.ts",
  federate: "src/config/resolve.ts",
};

/** Keys that are not read by name, because their whole object is used: the tests that show what they do. */
const shownByBehaviour: Readonly<Record<string, string>> = {
  "policy.results.detect": "src/policy/cel/effects.test.ts",
  "routes.*.policy.results.detect": "src/policy/cel/effects.test.ts",
  validation: "src/config/load.parse.test.ts",
  "routes.*.validation": "src/config/load.parse.test.ts",
  "routes.*.overrides.tools": "test/e2e/federation-overrides.test.ts",
  "routes.*.federation.serverInfo": "src/federation/server-facts.test.ts",
};

/** Keys that the schema turns into others; the one that takes their place is read. */
const replaced: Readonly<Record<string, string>> = {
  "routes.*.upstream.demo": "routes.*.upstream.type",
  "routes.*.upstream.recordings": "routes.*.upstream.type",
  "routes.*.upstreams.*.demo": "routes.*.upstream.type",
  "routes.*.upstreams.*.recordings": "routes.*.upstream.type",
  "upstream.demo": "routes.*.upstream.type",
  "upstream.recordings": "routes.*.upstream.type",
  "mcpServers.*.disabled": "routes",
};

/** Every key of the schema by its path; `*` stands for a name of the user, and lists have no step of their own. */
function pathsBelow(schema: JsonSchema, path: readonly string[] = []): string[] {
  return alternativesOf(schema).flatMap(({ properties = {}, additionalProperties, items }) => [
    ...Object.entries(properties).flatMap(([key, inner]) => [
      [...path, key].join("."),
      ...pathsBelow(inner, [...path, key]),
    ]),
    ...(typeof additionalProperties === "object" ? pathsBelow(additionalProperties, [...path, "*"]) : []),
    ...(items === undefined ? [] : pathsBelow(items, path)),
  ]);
}

const paths = [...new Set(pathsBelow(configJsonSchema()))];
/** The files that read a key: of the configuration as it was parsed, or as it was resolved for the gateway. */
let readersOf: (path: string) => ReadonlySet<string>;

beforeAll(() => {
  using reads = findPropertyReads(root);
  const parsed = reads.keysOf("src/config/schema.ts", "ParsedConfig");
  const resolved = reads.keysOf("src/config/config.ts", "Config");
  const found = new Map(
    [...parsed.keys(), ...resolved.keys()].map((path) => [
      path,
      reads.readersOf([...(parsed.get(path) ?? []), ...(resolved.get(path) ?? [])]),
    ]),
  );
  readersOf = (path) => found.get(replaced[path] ?? path) ?? new Set();
}, compilerMs);

function isReadOutside(path: string): boolean {
  return [...readersOf(path)].some((file) => !file.startsWith("src/config/"));
}

/** The test that shows what a key does, if its whole object is used. */
function testOf(path: string): string | undefined {
  return Object.entries(shownByBehaviour).find(([prefix]) => path.startsWith(`${prefix}.`))?.[1];
}

describe("a key of the configuration", () => {
  it("is found wherever the schema has one", () => {
    expect(paths.length).toBeGreaterThan(500);
    expect(paths).toContain("routes.*.timeouts.streamKeepAlive");
    expect(paths).toContain("policy.rules.requireScope");
  });

  it("is read outside src/config/, by its declaration and not only by its name", () => {
    const unread = paths.filter(
      (path) => !isReadOutside(path) && !(path in actsOnLoading) && testOf(path) === undefined,
    );
    expect(unread).toEqual([]);
  });

  it("that acts while loading is read there, and nowhere else", () => {
    const wrong = Object.entries(actsOnLoading).filter(
      ([path, file]) => !readersOf(path).has(file) || isReadOutside(path),
    );
    expect(wrong).toEqual([]);
  });

  it("that is used with its whole object has a test that sets it", () => {
    const wrong = paths.filter((path) => {
      const file = isReadOutside(path) || path in actsOnLoading ? undefined : testOf(path);
      const key = path.slice(path.lastIndexOf(".") + 1);
      return file !== undefined && !new RegExp(String.raw`\b${key}\b`, "u").test(textOf(file));
    });
    expect(wrong).toEqual([]);
  });

  it("would be reported if nothing read it", () => {
    expect(isReadOutside("limits.noSuchLimit")).toBe(false);
    // `src/config/` reads it; a member of the same name is read in many places.
    expect(isReadOutside("routes.*.upstreams.*.title")).toBe(false);
  });
});

function textOf(file: string): string {
  return existsSync(resolve(root, file)) ? readFileSync(resolve(root, file), "utf8") : "";
}
