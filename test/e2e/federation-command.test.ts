import { describe, expect, it } from "vitest";

import { headgate, temporaryFolder } from "../support/capture-file.ts";
import { serveTestKit } from "../support/served-kit.ts";
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

  it("says what lists lack, whichever page says it", async () => {
    await using fixture = await startFixture({ era: "dual" });
    using folder = temporaryFolder();
    const file = folder.write(
      "headgate.yaml",
      `listen: { port: 0 }
admin: false
record: false
routes:
  desk:
    upstreams:
      web: { url: "${fixture.url}" }
      gone: { url: "http://127.0.0.1:1/mcp" }
      one: { demo: true, prefix: "" }
      two: { demo: true, prefix: "" }
    federation: { nameLength: 32, listing: { page: 2 } }
`,
    );
    await using gateway = await startGateway(["run", "--config", file]);
    for (const command of ["tools", "prompts", "resources"]) {
      const { output, exitCode } = await headgate(command, gateway.url);
      expect(exitCode).toBe(0);
      expect(output).toMatch(/^gone is missing since 2\S+Z: .+$/mu);
      expect(output.match(/^gone is missing/gmu)).toHaveLength(1);
      const { _meta } = JSON.parse((await headgate(command, "--json", gateway.url)).output) as {
        readonly _meta: unknown;
      };
      expect(_meta).toMatchObject({ "headgate/degraded": [{ upstream: "gone", stale: false }] });
    }
    const tools = await headgate("tools", gateway.url);
    expect(tools.output.match(/^web__\S+ is cut from \S+$/gmu)?.length).toBeGreaterThan(3);
    const called = await headgate("call", "gone__x", "--url", gateway.url);
    expect(called.output).toContain("unknown tool `gone__x`");
    expect(called.output).toContain("(missing from the list: the tools of gone)");
    const clashing = await headgate("call", "add", "--url", gateway.url);
    expect(clashing.output).toContain("`add` is left out: several servers have it");
  });

  it("checks names against the approved definitions of several servers", async () => {
    using folder = temporaryFolder();
    const definitions = (...keys: readonly string[]) =>
      Object.fromEntries(
        keys.map((key) => [key, { approvedAt: "2026-01-01T00:00:00.000Z", fingerprints: {}, fields: {} }]),
      );
    const routes = {
      "desk/one": definitions("tool who", "tool a_long_name_that_will_be_cut_in_the_end", "prompt greet"),
      "desk/two": definitions("tool who", "tool only", "prompt greet"),
    };
    folder.write("headgate.lock.json", JSON.stringify({ format: 1, routes }));
    const file = folder.write(
      "headgate.yaml",
      `listen: { port: 0 }
admin: false
record: false
drift: { lock: headgate.lock.json }
routes:
  desk:
    upstreams:
      one: { demo: true, prefix: "" }
      two: { demo: true, prefix: "" }
      three: { demo: true }
    federation: { nameLength: 32 }
    views: { part: { tools: [only, onyl, three__x] } }
`,
    );
    const { output, exitCode } = await headgate("check", file);
    expect(exitCode).toBe(0);
    for (const line of [
      "who is left out: several servers have it (warning)",
      "greet is left out: several servers have it (warning)",
      "views.part.tools: no server offers `onyl`; write the name that clients see (warning)",
    ])
      expect(output).toContain(` routes.desk: ${line}\n`);
    expect(output).toMatch(
      / routes\.desk: a_long_name_\S+ is cut from a_long_name_that_will_be_cut_in_the_end \(warning\)\n/u,
    );
    expect(output).not.toMatch(/three__x|`only`/u);
  });

  it("examines each server, and what only shows where they are one", async () => {
    await using kit = await serveTestKit();
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
      kit: { url: "${kit.url}" }
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
    expect(output).toMatch(
      /desk\/kit: .*\n {2}ok .*connected.*\n {2}ok .*answered.*\n {2}ok .* tools, no resources, no prompts\n/u,
    );
    expect(output).toContain("desk: 5 servers as one\n");
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
      third: { demo: true }
    views:
      few: { tools: [add] }
      many: { tools: ["*"], discovery: search }
`,
    );
    const { output, exitCode } = await headgate("check", "--only-file", file);
    expect(exitCode).toBe(0);
    expect(output).toMatch(/^ok: 1 route, 2 views on /u);
    expect(output).toMatch(/^ {2}desk {7}\/desk\/mcp \/mcp {2}3 servers as one$/mu);
    expect(output).toMatch(/^ {2}desk\/few +\/desk\/few\/mcp +view$/mu);
    expect(output).toMatch(/^ {2}desk\/many +\/desk\/many\/mcp +view, found by searching$/mu);
    expect(output).toContain("    github, as gh__…   https://example.com/mcp  (required)\n");
    expect(output).toContain("    notes, bare names  built-in demo server\n");
    expect(output.match(/^ {4}third__… {11}built-in demo server$/gmu)).toHaveLength(1);
    const clash = folder.write("bad.yaml", "routes: { w: { upstreams: { a__b: { demo: true } } } }\n");
    expect((await headgate("check", "--only-file", clash)).output).toContain("contains the separator `__`");
  });
});
