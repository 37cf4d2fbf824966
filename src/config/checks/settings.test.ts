import { describe, expect, it } from "vitest";

import { formatProblem } from "../issues.ts";
import { alternativesOf, configJsonSchema, type JsonSchema } from "../json-schema.ts";
import { loadConfig } from "../load.ts";
import { durationKeys } from "./settings.ts";

const hash = "sha256:JjRz9ybwnrYkeV1GJ_9pO1aArGzlw7PG7jPmvyoaFdw";
const demo = "upstream: { demo: true }";
const keysOf = (keys: string): string => `${demo}\nauth: { authenticators: { a: { apiKeys: { keys: ${keys} } } } }`;

async function findingsOf(text: string): Promise<readonly string[]> {
  const result = await loadConfig({ text, format: "yaml", env: {}, readFile: () => Promise.resolve("") });
  const found = result.ok ? result.warnings : result.problems;
  return found.map((problem) =>
    `${result.ok ? "warning" : "problem"} ${formatProblem(problem)}`.replace(/ \d+:\d+ /u, " "),
  );
}

describe("settings that cannot do what they say", () => {
  it.each<[text: string, finding: string]>([
    [
      keysOf(`{ ann: { hash: "${hash}" }, bob: { hash: "${hash}" } }`),
      "problem auth.authenticators.a.apiKeys.keys.bob.hash: is also the hash of `ann`; give each owner a key: `headgate key`",
    ],
    [
      keysOf(`{ ann: { hash: "${hash}", expires: 2020-01-01T00:00:00Z } }`),
      "warning auth.authenticators.a.apiKeys.keys.ann.expires: is in the past: the key is refused",
    ],
    [keysOf("{}"), "warning auth.authenticators.a.apiKeys.keys: has no keys; create one with `headgate key`"],
    [
      `${demo}\nrecord: { retention: { routes: { defualt: 1d } } }`,
      "warning record.retention.routes: no route `defualt`; did you mean `default`?",
    ],
    [
      `${demo}\nrates: { methods: { tool/call: { perSecond: 1 } } }`,
      "warning rates.methods: MCP has no method `tool/call`; did you mean `tools/call`?",
    ],
    [
      "routes: { a: { upstream: { demo: true }, rates: { methods: { tools/run: { perSecond: 1 } } } } }",
      "warning routes.a.rates.methods: MCP has no method `tools/run`",
    ],
    [
      'upstream: { url: "http://localhost:8484/mcp" }',
      "problem upstream.url: is this route itself; give the URL of the server, or another `listen.port`",
    ],
    [
      'routes: { a: { upstreams: { b: { url: "http://127.0.0.1:8484/a/mcp" } } } }',
      "problem routes.a.upstreams.b.url: is this route itself; give the URL of the server, or another `listen.port`",
    ],
    [
      `${demo}\nlisten: { publicUrl: https://mcp.example.com/mcp }`,
      "warning listen.publicUrl: paths of endpoints follow it: clients would connect to https://mcp.example.com/mcp/mcp; leave out `/mcp`",
    ],
    [
      `${demo}\ntimeouts: { tool: 30 }`,
      "warning timeouts.tool: is 30ms because it has no unit; write `30ms`, or `30s` for seconds",
    ],
    [
      `${demo}\nrecord: { retention: { maxAge: 30 } }`,
      "warning record.retention.maxAge: is 30ms because it has no unit; write `30ms`, or `30s` for seconds",
    ],
    [
      `${demo}\nrecord: { file: ~/a.sqlite }`,
      "problem record.file: no shell replaces `~` here; write `${env:HOME}/a.sqlite`",
    ],
    [
      "upstream: { command: node, args: [~/a.js] }",
      "warning upstream.args[0]: no shell replaces `~` here; write `${env:HOME}/a.js`",
    ],
    [
      "mcpServers: { Files: { command: node, env: { DATA: ~/a } } }",
      "warning mcpServers.Files.env.DATA: no shell replaces `~` here; write `${env:HOME}/a`",
    ],
    [
      "upstream: { command: node, args: [--root=$HOME/a] }",
      "warning upstream.args[0]: no shell replaces `$HOME` here; write `${env:HOME}`",
    ],
    [
      'upstream: { url: "https://a.example/mcp", headers: { Authorization: "Bearer $API_TOKEN" } }',
      "warning upstream.headers.Authorization: no shell replaces `$API_TOKEN` here; write `${env:API_TOKEN}`",
    ],
    [
      'upstream: { url: "https://$HOST_NAME/mcp" }',
      "warning upstream.url: no shell replaces `$HOST_NAME` here; write `${env:HOST_NAME}`",
    ],
    [
      "mcpServers: { Files: { command: node, env: { DB: $DB_URL } } }",
      "warning mcpServers.Files.env.DB: no shell replaces `$DB_URL` here; write `${env:DB_URL}`",
    ],
    [
      String.raw`upstream: { command: node, args: ['%USERPROFILE%\a'] }`,
      "warning upstream.args[0]: no shell replaces `%USERPROFILE%` here; write `${env:USERPROFILE}`",
    ],
    [
      "upstream: { command: node, cwd: $HOME/a }",
      "problem upstream.cwd: no shell replaces `$HOME` here; write `${env:HOME}`",
    ],
    [
      'upstream: { url: "https://a.example/mcp", headers: { A: "Bearer ${env:TOKEN" } }',
      "problem upstream.headers.A: a reference is not closed; write `${env:NAME}`",
    ],
    [
      String.raw`upstream: { command: "C:\node\node.exe" }`,
      "problem upstream.command: contains a control character; in double quotes `\\` begins an escape such as `\\n`: use single quotes",
    ],
    [
      "upstream: { command: \u201Cnode\u201D }",
      'problem upstream.command: its quotes are typographic and count as text: write `"`',
    ],
    [
      "upstream: { command: node, args: [\u2018-y\u2019] }",
      'warning upstream.args[0]: its quotes are typographic and count as text: write `"`',
    ],
    [
      'upstream: { command: node, args: [a.js, ">", log.txt] }',
      'warning upstream.args[1]: no shell sees `>` here; run one: `command: sh`, `args: [-c, "…"]`',
    ],
    [
      `${demo}\nauth: {}`,
      "warning auth: has no `authenticators`, so callers need no credentials; leave it out to say so",
    ],
    [
      `${demo}\nauth: { authenticators: {} }`,
      "warning auth: has no `authenticators`, so callers need no credentials; leave it out to say so",
    ],
    [
      `${demo}\nlisten: { unixSocket: a.sock, port: 9000 }`,
      "warning listen.port: is not used beside `unixSocket`; keep one of the two",
    ],
  ])("are reported: %s", async (text, finding) => {
    expect(await findingsOf(text)).toContain(finding);
  });

  it.each<[text: string]>([
    [keysOf(`{ ann: { hash: "${hash}", expires: 2999-01-01T00:00:00Z } }`)],
    [`${demo}\nrecord: { retention: { routes: { default: 1d } } }`],
    [
      "routes: { a: { upstreams: { b: { demo: true } }, views: { v: { tools: ['*'] } } } }\nrecord: { retention: { routes: { a/v: 1d } } }",
    ],
    [`${demo}\nrates: { methods: { tools/*: { perSecond: 1 }, acme/run: { perSecond: 1 } } }`],
    ['upstream: { url: "http://localhost:8484/other/mcp" }'],
    ['listen: { port: 9000 }\nupstream: { url: "http://localhost:8484/mcp" }'],
    [`${demo}\nlisten: { publicUrl: https://example.com/tools }`],
    [`${demo}\ntimeouts: { tool: 30000, quick: 250ms }\nshutdown: { readinessDelay: 0 }`],
    ['upstream: { command: node, args: ["-e", "a\\nb"], env: { command: "a\\nb" } }'],
    ["upstream: { command: /bin/sh, args: [-c, 'exec server $HOME/a'] }"],
    ["upstream: { command: node, env: { WORD: pa$SWORD, RATE: 50%OFF%, PRICE: $5 } }"],
    [`${demo}\npolicy: { rules: [{ allow: 'mcp.tool == "$HOME"' }] }`],
  ])("are not seen where there are none: %s", async (text) => {
    expect(await findingsOf(text)).toEqual([]);
  });
});

describe("the names of durations", () => {
  it("are those of the schema", () => {
    const found = new Set<string>();
    const visit = (schema: JsonSchema, holder: string, key: string): void => {
      for (const { title, properties = {}, additionalProperties, items } of alternativesOf(schema)) {
        if (title === "duration") found.add(key === "*" ? `${holder}.*` : key);
        for (const [name, inner] of Object.entries(properties)) visit(inner, key, name);
        if (typeof additionalProperties === "object") visit(additionalProperties, key, "*");
        if (items !== undefined) visit(items, key, "[]");
      }
    };
    visit(configJsonSchema(), "", "");
    expect([...durationKeys].toSorted()).toEqual([...found].toSorted());
  });
});
