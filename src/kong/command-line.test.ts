import { describe, expect, it } from "vitest";
import { kongHelp, parseKongCommand } from "./command-line.ts";

describe("the command line of headgate-kong", () => {
  it.each([
    [["--help"], { do: "help" }],
    [["-h", "--query"], { do: "help" }],
    [["--version"], { do: "version" }],
    [["--query"], { do: "query", accessOnly: false }],
    [["--query", "--access-only"], { do: "query", accessOnly: true }],
    [["--socket", "/run/kong.sock"], { do: "serve", socket: "/run/kong.sock", accessOnly: false }],
    [["--access-only", "--socket=/a"], { do: "serve", socket: "/a", accessOnly: true }],
  ])("understands %j", (args, command) => {
    expect(parseKongCommand(args)).toEqual(command);
  });

  it.each([
    [[], "give --query or --socket PATH"],
    [["--socket"], "--socket needs the path"],
    [["--socket="], "--socket needs the path"],
    [["--query", "--socket", "/a"], "two commands"],
    [["--dump-all-plugins"], "there is no option --dump-all-plugins; there are --query"],
    [["serve"], "serve is no option"],
  ])("refuses %j with words that help", (args, problem) => {
    expect(parseKongCommand(args)).toMatchObject({
      do: "refuse",
      problem: expect.stringContaining(problem) as unknown,
    });
  });

  it("shows all its options, and the lines for kong.conf", () => {
    for (const word of ["--query", "--socket", "--access-only", "pluginserver_headgate_query_cmd"]) {
      expect(kongHelp).toContain(word);
    }
  });
});
