import { describe, expect, it } from "vitest";

import { loadConfig } from "../load.ts";
import { formatProblem } from "../issues.ts";

async function problemsOf(text: string, format: "yaml" | "json" = "yaml"): Promise<readonly string[]> {
  const result = await loadConfig({ text, format, env: { NAME: "x" }, readFile: () => Promise.resolve("") });
  return result.ok ? [] : result.problems.map((problem) => formatProblem(problem, "headgate.yaml"));
}

/** A configuration with rules. */
function withRules(...lines: readonly string[]): string {
  return ["upstream: { demo: true }", "policy:", "  rules:", ...lines.map((line) => `    ${line}`)].join("\n");
}

/** Line and column of where a piece of a text begins, its last one if there are several. */
function placeOf(text: string, piece: string): string {
  const before = text.slice(0, text.lastIndexOf(piece)).split("\n");
  return `headgate.yaml:${before.length}:${(before.at(-1) ?? "").length + 1}`;
}

describe("mistakes in rules", () => {
  it.each<[string, readonly string[], string, string]>([
    ["plain", ['- allow: mcp.toool == "x"'], "toool", "[0].allow: no such key: toool; did you mean `mcp.tool`?"],
    [
      "single quotes",
      [`- allow: '"it''s" == mcp.toool'`],
      "toool",
      "[0].allow: no such key: toool; did you mean `mcp.tool`?",
    ],
    [
      "double quotes",
      ['- allow: "\\"\\u0041\\" == mcp.toool"'],
      "toool",
      "[0].allow: no such key: toool; did you mean `mcp.tool`?",
    ],
    [
      "literal block",
      ["- allow: |", "    mcp.tool == 'a' &&", "      principal.idd == 'b'"],
      "idd",
      "[0].allow: no such key: idd; did you mean `principal.id`?",
    ],
    [
      "folded block",
      ["- id: x", "  allow: >-", "", "    mcp.tool == 'a'", "    && principal.idd == 'b'"],
      "idd",
      "[0].allow: no such key: idd; did you mean `principal.id`?",
    ],
    [
      "several plain lines",
      ["- allow: mcp.tool == 'a'", "    && foo"],
      "foo",
      "[0].allow: unknown variable: foo; expected `principal`, `mcp`, `request`, `session`",
    ],
    ["missing end", ["- allow: mcp.tool ==", "  id: x"], "\n      id", "[0].allow: unexpected token: the end"],
    ["wrong types", ["- allow: mcp.tool == 5"], "mcp.tool", "[0].allow: no such overload: string == int"],
    ["no condition", ["- allow: mcp.tool"], "mcp", "[0].allow: is string, expected bool"],
    ["nothing", ["- allow: ''"], "''", "[0].allow: needs a CEL expression"],
    [
      "a pattern",
      [`- allow: mcp.tool.matches("a(?=b)")`],
      '"a(',
      "[0].allow: is not a pattern: invalid or unsupported Perl syntax: `(?=`; there is no lookahead and no lookbehind: use two conditions, with `!` and `&&`",
    ],
    [
      "a pattern of the caller",
      ["- allow: mcp.tool.matches(mcp.arguments.p)"],
      "mcp.arguments",
      "[0].allow: `matches` needs one literal pattern",
    ],
    [
      "in a rate",
      ["- allow: 'true'", "  rate: { perSecond: 1, by: principal.nick }"],
      "nick",
      "[0].rate.by: no such key: nick; `principal` has `id`, `name`, `kind`, `scopes`, `claims`",
    ],
    [
      "in a value",
      ["- allow: 'true'", "  set:", "    /mode: readonly"],
      "readonly",
      `[0].set["/mode"]: unknown variable: readonly; expected \`principal\`, \`mcp\`, \`request\`, \`session\`; a string is CEL, so write '"eu"' for the text eu`,
    ],
    [
      "result of a call",
      ["- allow: result.isError"],
      "result",
      "[0].allow: unknown variable: result; expected `principal`, `mcp`, `request`, `session`",
    ],
    ["no action", ["- id: x"], "id: x", "[0]: needs exactly one of `deny`, `allow` and `apply`"],
    [
      "two actions",
      ["- { allow: 'true', deny: 'true' }"],
      "{",
      "[0]: needs exactly one of `deny`, `allow` and `apply`; found `deny` and `allow`: keep one",
    ],
    ["effects of a deny", ["- { deny: 'true', redact: [/x] }"], "deny", "[0].deny: a `deny` rule has no other effects"],
    [
      "a reason to allow",
      ["- { allow: 'true', reason: x }"],
      "{",
      "[0]: `reason`, `code` and `hide` go with `deny` only",
    ],
    [
      "names twice",
      ["- { id: a, allow: 'true' }", "- { id: a, deny: 'true' }"],
      "id",
      "[1].id: another rule is called `a`",
    ],
    [
      "no pointer",
      ["- { allow: 'true', redact: [x] }"],
      "x]",
      "[0].redact[0]: is not a JSON Pointer such as `/user/email`; `*` stands for any member or element",
    ],
    [
      "unknown effects",
      ["- { allow: 'true', redcat: [/x] }"],
      "redcat",
      "[0]: unknown key `redcat`; did you mean `redact`?",
    ],
    ["an open bracket", ["- allow: (true #c"], " #c", "[0].allow: expected `)`, got the end"],
    ["one ampersand", ['- allow: mcp.tool == "x" & true'], "& ", "[0].allow: unexpected character: &; write `&&`"],
    [
      "typographic quotes",
      ["- allow: mcp.tool == \u201Cx\u201D"],
      "\u201Cx",
      "[0].allow: unexpected character: \u201C; use straight quotes",
    ],
    [
      "a word for !",
      ["- deny: not mcp.tool.startsWith('x')"],
      "mcp.tool",
      "[0].deny: unexpected character: 'p'; write `!` for `not`",
    ],
  ])("have a place: %s", async (_, lines, piece, message) => {
    const text = withRules(...lines);
    expect(await problemsOf(text)).toEqual([`${placeOf(text, piece)} policy.rules${message}`]);
  });

  it("have one in JSON too, and on a route", async () => {
    const text = `{ "routes": { "a": { "upstream": { "demo": true },
      "policy": { "lists": [{ "allow": "entry.kind == 'tool' && entri.name == 'x'" }] } } } }`;
    expect(await problemsOf(text, "json")).toEqual([
      `${placeOf(text, "entri")} routes.a.policy.lists[0].allow: unknown variable: entri; did you mean \`entry\`?`,
    ]);
  });

  it("have one behind an anchor", async () => {
    const text = withRules("- { id: a, allow: &same mcp.toool == 'x' }", "- { id: b, deny: *same }");
    const place = placeOf(text, "toool");
    expect(await problemsOf(text)).toEqual([
      `${place} policy.rules[0].allow: no such key: toool; did you mean \`mcp.tool\`?`,
      `${place} policy.rules[1].deny: no such key: toool; did you mean \`mcp.tool\`?`,
    ]);
  });

  it("are two providers that would have to agree", async () => {
    const text = `upstream: { demo: true }
policy:
  pingAuthorize: { serviceUrl: "https://pdp.example.com", sharedSecret: s, secretHeaderName: CLIENT-TOKEN }
  lists: []
`;
    expect(await problemsOf(text)).toEqual([
      `${placeOf(text, "lists")} policy.lists: \`pingAuthorize\` cannot be combined with \`lists\``,
    ]);
  });

  it("are all said at once", async () => {
    expect(await problemsOf(withRules("- allow: a", "- deny: b", "- apply: c"))).toHaveLength(3);
  });

  it("are absent for valid rules", async () => {
    const text = withRules(
      "- allow: mcp.tool == 'a'",
      "- deny: |",
      "    mcp.arguments.a == 1 ||",
      "    'x' in principal.scopes",
    );
    expect(await problemsOf(text)).toEqual([]);
  });
});
