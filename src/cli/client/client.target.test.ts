import { describe, expect, it } from "vitest";

import { UsageError } from "../define-command.ts";
import { formatTarget, parseTarget, readTarget, type TargetArguments, notServer } from "./client.ts";

function parse(words: Partial<TargetArguments>) {
  return parseTarget({ url: undefined, header: undefined, program: undefined, ...words });
}

describe("parseTarget", () => {
  it("means the local gateway by default", () => {
    const target = parse({});
    expect(formatTarget(target)).toBe("http://127.0.0.1:8484/mcp");
  });

  it("takes a URL with headers", () => {
    const headers = ["Authorization: Bearer a:b", "x-empty:"];
    expect(parse({ url: "https://mcp.example.com/mcp", header: headers })).toEqual({
      type: "http",
      url: new URL("https://mcp.example.com/mcp"),
      headers: { authorization: "Bearer a:b", "x-empty": "" },
      socket: undefined,
      silenceMs: 60_000,
    });
  });

  it("takes a command", () => {
    const target = parse({ program: ["npx", "-y", "server"] });
    expect(target).toEqual({ type: "stdio", command: "npx", args: ["-y", "server"], silenceMs: 60_000 });
    expect(formatTarget(target)).toBe("`npx -y server`");
  });

  it.each<[Partial<TargetArguments>, string]>([
    [{ url: "localhost:8484" }, "`localhost:8484` is not an http or https URL; write `http://localhost:8484`"],
    [{ url: "nonsense" }, "`nonsense` is not an http or https URL"],
    [{ url: "http://me:pass@host/mcp" }, "the URL contains credentials; pass them with --header"],
    [{ program: [] }, "expected a command after --"],
    [{ program: [""] }, "expected a command after --"],
    [{ url: "http://host/mcp", program: ["x"] }, "a URL and a command cannot be combined"],
    [{ header: ["a:b"], program: ["x"] }, "--header needs a URL, not a command"],
    [{ header: ["secret"] }, "--header takes NAME:VALUE, the name and value of an HTTP header"],
    [{ header: ["a b:c"] }, "--header takes NAME:VALUE, the name and value of an HTTP header"],
    [{ header: ["a:b\nc: d"] }, "--header takes NAME:VALUE, the name and value of an HTTP header"],
  ])("refuses %j without repeating secrets", (words, problem) => {
    expect(() => parse(words)).toThrow(new UsageError(problem));
  });
});

describe("a word in the place of a URL", () => {
  it.each([
    ["127.0.0.1:8484/mcp", "; write `http://127.0.0.1:8484/mcp`"],
    ["mcp.example.com/mcp", "; write `http://mcp.example.com/mcp`"],
    ["backend:3000", "; write `http://backend:3000`"],
    ["[::1]:8484", "; write `http://[::1]:8484`"],
    ["npx", "; put `--` before a command to start"],
    ["server.js", "; put `--` before a command to start"],
    ["./server.py", "; put `--` before a command to start"],
    ["ftp://host", ""],
  ])("%s", (word, hint) => {
    expect(notServer(word).message).toBe(`\`${word}\` is not an http or https URL${hint}`);
  });
});

describe("readTarget", () => {
  const url = "https://mcp.example.com/mcp";
  const local = "http://127.0.0.1:8484/mcp";
  const read = (positionals: readonly string[], option: string | undefined) =>
    readTarget({ values: { url: option }, positionals, program: undefined });

  it.each([
    [[url], undefined, url, []],
    [[url, "add", "a=1"], undefined, url, ["add", "a=1"]],
    [["add", "a=1"], url, url, ["add", "a=1"]],
    [["read", "https://example.com/page"], undefined, local, ["read", "https://example.com/page"]],
    [["HTTP://host/mcp", "get"], undefined, "http://host/mcp", ["get"]],
    [[], undefined, local, []],
  ])("of %j with --url %j", (words, option, expected, rest) => {
    const found = read(words, option);
    expect({ ...found, target: formatTarget(found.target) }).toEqual({ target: expected, rest });
  });

  it("takes one only", () => {
    expect(() => read([url, "add"], url)).toThrow(UsageError);
  });
});
