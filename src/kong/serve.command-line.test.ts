import { describe, expect, it } from "vitest";
import { kongHelp, parseKongCommand } from "./serve.ts";

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
    [[], "expected --query or --socket PATH"],
    [["--socket"], "Option '--socket <value>' argument missing"],
    [["--socket="], "--socket needs the path"],
    [["--query", "--socket", "/a"], "cannot be combined"],
    [["--dump-all-plugins"], "Unknown option '--dump-all-plugins'; see --help"],
    [["serve"], "Unexpected argument 'serve'"],
  ])("refuses %j and says why", (args, problem) => {
    expect(parseKongCommand(args)).toMatchObject({
      do: "usage-error",
      problem: expect.stringContaining(problem) as unknown,
    });
  });

  it("shows all its options, and the lines for kong.conf", () => {
    for (const word of ["--query", "--socket", "--access-only", "pluginserver_ping_authorize_query_cmd"]) {
      expect(kongHelp).toContain(word);
    }
  });
});
