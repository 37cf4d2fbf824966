import { describe, expect, it } from "vitest";

import { substitute } from "./substitute.ts";

const env = { KEY: "s3cret-key", EMPTY: "", HOME: "/home/me" };

async function readFile(path: string): Promise<string> {
  if (path === "/run/key") return Promise.resolve("from file\n");
  throw Object.assign(new Error("ENOENT: no such file"), { code: "ENOENT" });
}

async function replaced(tree: unknown) {
  return substitute(tree, { env, readFile });
}

describe("references", () => {
  it("are replaced in every text, also in the middle and more than once", async () => {
    const { tree, values, paths } = await replaced({
      headers: { Authorization: "Bearer ${env:KEY}" },
      args: ["plain", "${env:KEY}:${env:HOME}"],
      port: 8484,
    });
    expect(tree).toEqual({
      headers: { Authorization: "Bearer s3cret-key" },
      args: ["plain", "s3cret-key:/home/me"],
      port: 8484,
    });
    expect(new Set(values)).toEqual(new Set(["s3cret-key", "/home/me"]));
    expect([...paths]).toEqual(["headers.Authorization", "args[1]"]);
  });

  it("to files give what is in them, without the line feed at the end", async () => {
    expect((await replaced({ key: "${file:/run/key}" })).tree).toEqual({ key: "from file" });
  });

  it("take their default where the variable is not set or empty, which is no secret", async () => {
    const { tree, values } = await replaced(["${env:NONE:-8484}", "${env:EMPTY:-x}", "${env:KEY:-x}", "${env:NONE:-}"]);
    expect(tree).toEqual(["8484", "x", "s3cret-key", ""]);
    expect(values).toEqual(["s3cret-key"]);
  });

  it("to an empty variable are warned of, unless its default is empty too", async () => {
    const { warnings, problems } = await replaced({ a: "Bearer ${env:EMPTY}", b: "${env:EMPTY:-}" });
    expect([warnings, problems]).toEqual([
      [
        {
          path: ["a"],
          message: "environment variable EMPTY is empty; set it, or write `${env:EMPTY:-}` if it may be",
        },
      ],
      [],
    ]);
  });

  it.each(["${env:KEY", "a ${file:/run/key", "${ env:KEY }", "${ENV:KEY}"])("%s is a problem", async (text) => {
    expect((await replaced({ a: text })).problems).toEqual([
      { path: ["a"], message: expect.stringMatching(/is not (?:closed|a reference)/u) as unknown },
    ]);
  });

  it("that lead nowhere are problems that name what is missing", async () => {
    const { problems } = await replaced({ a: "${env:NONE}", b: "${file:/run/none}", c: "${vault:x}" });
    expect(problems).toEqual([
      { path: ["a"], message: "environment variable NONE is not set; set it, or write `${env:NONE:-default}`" },
      { path: ["b"], message: "cannot read /run/none: no such file" },
      { path: ["c"], message: "`${vault:x}` is not a reference; use `${env:NAME}` or `${file:/path}`" },
    ]);
  });

  it("without a source are for mcpServers alone", async () => {
    const { tree, problems } = await replaced({
      mcpServers: { a: { env: { KEY: "${KEY}", OTHER: "${NONE:-other}", SAME: "${env:KEY}" } } },
      routes: { b: "${KEY}" },
    });
    expect(tree).toMatchObject({
      mcpServers: { a: { env: { KEY: "s3cret-key", OTHER: "other", SAME: "s3cret-key" } } },
    });
    expect(problems).toEqual([
      {
        path: ["routes", "b"],
        message: "`${KEY}` is not replaced here; write `${env:KEY}`, or `$${KEY}` for the literal text",
      },
    ]);
  });

  it("can be written as plain text", async () => {
    const { tree, problems } = await replaced([
      "$${HOME}",
      "$$",
      "$HOME",
      "${",
      "${}",
      "${a b}",
      "a$${env:KEY}${env:KEY}",
    ]);
    expect(tree).toEqual(["${HOME}", "$$", "$HOME", "${", "${}", "${a b}", "a${env:KEY}s3cret-key"]);
    expect(problems).toEqual([]);
  });

  it("in what was read are not followed again", async () => {
    const { tree } = await substitute("${env:A}", { env: { A: "${env:B} $& $1" }, readFile });
    expect(tree).toBe("${env:B} $& $1");
  });

  it("do not reach what every object inherits", async () => {
    const { problems } = await replaced(["${env:constructor}", "${env:__proto__}"]);
    expect(problems).toHaveLength(2);
  });
});
