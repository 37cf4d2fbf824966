import { describe, expect, it } from "vitest";

import { parseCommandLine, type OptionTable } from "./command-line.ts";

const options = {
  url: { type: "string", value: "URL", text: "Where." },
  port: { type: "string", short: "p", value: "PORT", text: "Which." },
  header: { type: "string", short: "H", multiple: true, value: "NAME:VALUE", text: "More." },
  json: { type: "boolean", text: "How." },
} as const satisfies OptionTable;

describe("parseCommandLine", () => {
  it("takes options, their short forms and values apart from the rest", () => {
    expect(parseCommandLine(options, ["add", "--url=u", "a=1", "-p", "80", "--json"])).toEqual({
      ok: true,
      values: { url: "u", port: "80", json: true },
      positionals: ["add", "a=1"],
      program: undefined,
    });
  });

  it("collects what may be repeated", () => {
    const line = parseCommandLine(options, ["-H", "a:1", "--header", "b:2"]);
    expect(line).toMatchObject({ ok: true, values: { header: ["a:1", "b:2"] } });
  });

  it("leaves everything behind -- to the other program", () => {
    expect(parseCommandLine(options, ["--json", "--", "npx", "--json", "--", "x"])).toEqual({
      ok: true,
      values: { json: true },
      positionals: [],
      program: ["npx", "--json", "--", "x"],
    });
    expect(parseCommandLine(options, ["--"])).toMatchObject({ program: [] });
  });

  it.each([
    [["--ulr", "x"], "unknown option --ulr; did you mean --url?"],
    [["--anything"], "unknown option --anything"],
    [["--__proto__", "x"], "unknown option --__proto__"],
    [["-x"], "unknown option -x"],
    [["--url"], "--url needs a value: --url URL"],
    [["--url="], "--url needs a value: --url URL"],
    [["--url", "--json"], "--url needs a value: --url URL"],
    [["--verison"], "unknown option --verison; did you mean --version?"],
    [["-p"], "-p needs a value: -p PORT"],
    [["--json=yes"], "--json takes no value"],
    [["--url", "a", "--url", "b"], "--url was given twice"],
  ])("says what is wrong with %j", (args, problem) => {
    expect(parseCommandLine(options, args)).toEqual({ ok: false, problem, words: [] });
  });

  it("takes a negative number as a value, which is then out of range", () => {
    expect(parseCommandLine(options, ["-p", "-1"])).toMatchObject({ ok: true, values: { port: "-1" } });
  });

  it("says which words came before the mistake", () => {
    const problem = "unknown option -y";
    expect(parseCommandLine(options, ["npx", "-y", "x"])).toEqual({ ok: false, problem, words: ["npx"] });
  });
});
