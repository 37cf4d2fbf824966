import { globSync, readFileSync } from "node:fs";
import { resolve } from "node:path";

import { describe, expect, it } from "vitest";

import { alternativesOf, configJsonSchema, type JsonSchema } from "../../src/config/json-schema.ts";

const root = resolve(import.meta.dirname, "../..");

/** Which code must read the keys below a path; the longest matching path counts. */
const readers: Readonly<Record<string, readonly string[]>> = {
  listen: ["src/gateway"],
  admin: ["src/gateway"],
  auth: ["src/auth", "src/gateway/edge"],
  policy: ["src/policy/cel", "src/policy/enforcement", "src/policy/enforce.ts", "src/gateway/wiring"],
  "policy.rules.rate": ["src/lib/token-bucket.ts", "src/policy/cel"],
  "policy.authzen": ["src/policy/authzen", "src/policy/pdp", "src/gateway/wiring"],
  "policy.pingAuthorize": ["src/policy/sideband", "src/policy/pdp", "src/gateway/wiring"],
  "policy.authzen.tls": ["src/lib/keys/pem.ts", "src/gateway/wiring"],
  "policy.pingAuthorize.tls": ["src/lib/keys/pem.ts", "src/gateway/wiring"],
  audit: ["src/policy/audit", "src/gateway/wiring"],
  record: ["src/recorder", "src/gateway/wiring"],
  "record.redact": ["src/redact", "src/gateway/wiring"],
  drift: ["src/recorder/drift", "src/gateway/wiring"],
  log: ["src/cli/serve", "src/gateway", "src/telemetry"],
  limits: ["src/gateway", "src/sessions", "src/cli/serve"],
  rates: ["src/gateway/route", "src/lib/token-bucket.ts"],
  cors: ["src/gateway/edge", "src/gateway/gateway.ts", "src/gateway/route"],
  validation: ["src/gateway/route", "src/gateway/passthrough", "src/protocol/validation"],
  interceptors: ["src/gateway/wiring", "src/gateway/gateway.ts"],
  sessions: ["src/gateway"],
  state: ["src/gateway", "src/cluster"],
  cluster: ["src/gateway"],
  timeouts: ["src/gateway", "src/sessions"],
  shutdown: ["src/gateway"],
  routes: ["src/gateway"],
  "routes.*.views": ["src/federation", "src/gateway/upstream"],
  "routes.*.overrides": ["src/federation", "src/gateway/upstream"],
  "routes.*.federation": ["src/federation", "src/gateway/upstream"],
  "routes.*.upstreams": ["src/federation", "src/gateway", "src/auth", "src/transports"],
  upstream: ["src/gateway", "src/auth", "src/transports"],
};

/** Keys that take effect while the configuration is loaded: they decide what is refused or what the result contains. */
const actsOnLoading: Readonly<Record<string, string>> = {
  $schema: "for editors",
  "listen.allowAnonymous": "src/config/auth-checks.ts",
  "admin.allowAnonymous": "src/config/resolve.ts",
  "auth.use": "src/config/auth-checks.ts",
  "routes.*.auth.use": "src/config/auth-checks.ts",
  "policy.authzen.allowHttp": "src/policy/authzen/config.ts",
  "upstream.demo": "src/transports/config.ts",
  upstream: "src/config/resolve.ts",
  mcpServers: "src/config/resolve.ts",
  federate: "src/config/resolve.ts",
};

interface Source {
  readonly file: string;
  readonly text: string;
}

const sources: readonly Source[] = globSync("src/**/*.ts", { cwd: root })
  .filter((file) => !file.includes(".test.") && !file.startsWith("src/config/"))
  .map((file) => ({ file, text: withoutSchemas(file, readFileSync(resolve(root, file), "utf8")) }));

/** A fragment of the schema names its keys without reading them: only its functions count. */
function withoutSchemas(file: string, text: string): string {
  if (!file.endsWith("/config.ts")) return text;
  return [...text.matchAll(/^(?:export )?function [^]*?^\}$/gmu)].map(([code]) => code).join("\n");
}

/** Whether code reads a member of this name: `.key`, `["key"]`, or a destructuring. */
function reads(text: string, key: string): boolean {
  const name = key.replaceAll("$", String.raw`\$`);
  return new RegExp(
    String.raw`\??\.${name}\b|\["${name}"\]|\{[^{}]*\b${name}\b(?:[^{}]|\{[^{}]*\})*\}(?:: [\w<>"'[\] ]+)?(?: = |[,)]| of )`,
    "u",
  ).test(text);
}

function readerFilesOf(path: string): readonly Source[] {
  const prefix = Object.keys(readers)
    .filter((candidate) => path === candidate || path.startsWith(`${candidate}.`))
    .toSorted((one, other) => other.length - one.length)[0];
  const places = prefix === undefined ? [] : (readers[prefix] ?? []);
  return sources.filter(({ file }) => places.some((place) => file === place || file.startsWith(`${place}/`)));
}

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

/** What a route can override is resolved into one value, which is read under the path of the general key. */
function generalPath(path: string): string {
  return path.replace(/^routes\.\*\.(?=(?:policy|rates|cors|upstream|auth|timeouts|validation|interceptors)\b)/u, "");
}

const paths = [...new Set(pathsBelow(configJsonSchema()))].filter((path) => !path.startsWith("mcpServers."));

function isRead(path: string): boolean {
  if (path in actsOnLoading || generalPath(path) in actsOnLoading) return true;
  const key = path.slice(path.lastIndexOf(".") + 1);
  return readerFilesOf(generalPath(path)).some(({ text }) => reads(text, key));
}

describe("a key of the configuration", () => {
  it("is found wherever the schema has one", () => {
    expect(paths.length).toBeGreaterThan(200);
    expect(paths).toContain("routes.*.timeouts.streamKeepAlive");
    expect(paths).toContain("policy.rules.requireScope");
  });

  it("is read by the code that it configures, outside src/config/", () => {
    expect(paths.filter((path) => !isRead(path))).toEqual([]);
  });

  it("that acts while loading is read there", () => {
    const wrong = Object.entries(actsOnLoading).filter(([path, file]) => {
      if (!file.endsWith(".ts")) return false;
      const key = path.slice(path.lastIndexOf(".") + 1);
      return !new RegExp(String.raw`\b${key}\b`, "u").test(readFileSync(resolve(root, file), "utf8"));
    });
    expect(wrong).toEqual([]);
  });

  it("would be reported if nothing read it", () => {
    expect(isRead("limits.noSuchLimit")).toBe(false);
    expect(isRead("nowhere.port")).toBe(false);
  });
});
