import { describe, expect, it } from "vitest";

import { parseTarget, formatTarget, type TargetArguments } from "./target.ts";

function parse(words: Partial<TargetArguments>) {
  return parseTarget({ url: undefined, headers: undefined, program: undefined, ...words });
}

describe("parseTarget", () => {
  it("means the gateway on this machine unless told otherwise", () => {
    const target = parse({});
    expect(target.ok && formatTarget(target.value)).toBe("http://127.0.0.1:8484/mcp");
  });

  it("takes a URL with headers", () => {
    const headers = ["Authorization: Bearer a:b", "x-empty:"];
    expect(parse({ url: "https://mcp.example.com/mcp", headers })).toEqual({
      ok: true,
      value: {
        type: "http",
        url: new URL("https://mcp.example.com/mcp"),
        headers: { authorization: "Bearer a:b", "x-empty": "" },
      },
    });
  });

  it("takes a command", () => {
    const target = parse({ program: ["npx", "-y", "server"] });
    expect(target).toEqual({ ok: true, value: { type: "stdio", command: "npx", args: ["-y", "server"] } });
    expect(target.ok && formatTarget(target.value)).toBe("`npx -y server`");
  });

  it.each<[Partial<TargetArguments>, string]>([
    [{ url: "localhost:8484" }, "`localhost:8484` is not an http or https URL"],
    [{ url: "nonsense" }, "`nonsense` is not an http or https URL"],
    [{ url: "http://me:pass@host/mcp" }, "the URL has credentials in it; they belong in --header"],
    [{ program: [] }, "a command must follow --"],
    [{ url: "http://host/mcp", program: ["x"] }, "give a URL or a command, not both"],
    [{ headers: ["a:b"], program: ["x"] }, "--header is for servers that have a URL"],
    [{ headers: ["secret"] }, "--header takes NAME:VALUE, the name and value of an HTTP header"],
    [{ headers: ["a b:c"] }, "--header takes NAME:VALUE, the name and value of an HTTP header"],
    [{ headers: ["a:b\nc: d"] }, "--header takes NAME:VALUE, the name and value of an HTTP header"],
  ])("refuses %j without repeating secrets", (words, problem) => {
    expect(parse(words)).toEqual({ ok: false, problem });
  });
});
