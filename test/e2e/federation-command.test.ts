import { describe, expect, it } from "vitest";

import { headgate, temporaryFolder } from "../support/capture-file.ts";
import { startFixture, stdioFixture } from "../support/fixture.ts";
import { startGateway } from "../support/gateway.ts";

describe("the command in front of several servers", () => {
  it("serves the servers of --federate behind one endpoint, and lists what they have and lack", async () => {
    await using fixture = await startFixture({ era: "dual", half: "first" });
    const child = stdioFixture({ era: "dual", half: "second" })
      .map((word) => `"${word}"`)
      .join(" ");
    await using gateway = await startGateway([
      "run",
      "--port",
      "0",
      "--no-record",
      "--federate",
      `web=${fixture.url}`,
      `child=${child}`,
      "gone=http://127.0.0.1:1/mcp",
    ]);
    const { output, exitCode } = await headgate("tools", gateway.url);
    expect(exitCode).toBe(0);
    expect(output).toContain("web__test_simple_text");
    expect(output).toContain("child__test_elicitation");
    expect(output).toMatch(/^gone is missing since 2\S+Z: .+$/mu);
    const size = await headgate("tools", "--size", gateway.url);
    expect(size.output).toMatch(/: \d+ tools, about [\d,]+ tokens \([\d,]+ bytes of .+\)\n {2}(web|child)__/u);
    const called = await headgate("call", "web__test_simple_text", "--url", gateway.url);
    expect(called.output).toContain("This is a simple text response for testing.");
  });

  it.each([
    ["a=", /--federate takes NAME=URL or NAME='COMMAND ARGS', not `a=`/u],
    ["https://example.com", /--federate takes NAME=URL/u],
  ])("refuses --federate %s", async (member, problem) => {
    const { output, exitCode } = await headgate("run", "--federate", member);
    expect(exitCode).toBe(2);
    expect(output).toMatch(problem);
  });

  it("examines each server, and what only shows where they are one", async () => {
    using folder = temporaryFolder();
    const file = folder.write(
      "headgate.yaml",
      `listen: { port: 0 }
admin: false
routes:
  desk:
    upstreams:
      one: { demo: true, prefix: "" }
      two: { demo: true, prefix: "" }
      a-demo-with-a-long-name: { demo: true }
      gone: { url: "http://127.0.0.1:1/mcp" }
    federation: { nameLength: 35 }
    overrides: { tools: { one__add: { hide: true } } }
    views: { part: { tools: [add, ad] } }
`,
    );
    const { output, exitCode } = await headgate("doctor", "--route", "desk", file);
    expect(exitCode).toBe(1);
    expect(output).toMatch(/desk\/one: built-in demo server\n {2}ok .*answered.*\n {2}ok {3}5 tools/u);
    expect(output).toMatch(/desk\/gone: .*\n {2}FAIL TCP: cannot connect/u);
    expect(output).toContain("desk: 4 servers as one\n");
    expect(output).toContain("warn add is left out: several servers have it\n");
    expect(output).toMatch(/warn gone is missing since \S+: /u);
    expect(output).toMatch(/warn a-demo-with-a-long-name__\S+ is cut from \S+\n/u);
    expect(output).toContain("warn overrides.tools: no server offers `one__add`\n       write the name");
    expect(output).toContain("warn views.part.tools: no server offers `ad`\n");
    expect(output).not.toContain("desk/part");
  });

  it("checks a configuration with several servers and shows their names and places", async () => {
    using folder = temporaryFolder();
    const file = folder.write(
      "headgate.yaml",
      `routes:
  desk:
    upstreams:
      github: { url: https://example.com/mcp, prefix: gh, required: true }
      notes: { demo: true, prefix: "" }
`,
    );
    const { output, exitCode } = await headgate("check", "--only-file", file);
    expect(exitCode).toBe(0);
    expect(output).toContain("desk  /desk/mcp /mcp  2 servers as one");
    expect(output).toContain("    gh__…         https://example.com/mcp  (required)");
    expect(output).toContain("    (bare names)  built-in demo server");
    const clash = folder.write("bad.yaml", "routes: { w: { upstreams: { a__b: { demo: true } } } }\n");
    expect((await headgate("check", "--only-file", clash)).output).toContain("contains the separator `__`");
  });
});
