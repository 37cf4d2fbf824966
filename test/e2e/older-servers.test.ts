import { describe, expect, it } from "vitest";

import { startGateway } from "../support/gateway.ts";
import { headgate, testFolder } from "../support/headgate-command.ts";

describe("a server that speaks HTTP+SSE", () => {
  it("is detected where it refuses a POST with a JSON-RPC error", async () => {
    await using old = await startGateway(["run", "--port", "0"]);
    await using gateway = await startGateway(["run", "--port", "0", "--upstream", `${old.origin}/sse`]);
    const { exitCode, stdout } = await headgate(["call", "add", "a=2", "b=40", "--url", gateway.url]);
    expect([exitCode, stdout]).toEqual([0, expect.stringContaining("42")]);
  });
});

describe("a path without an endpoint", () => {
  it("is answered with the endpoints that exist", async () => {
    using folder = testFolder();
    const config = "routes: { a: { upstream: { demo: true } }, b: { upstream: { demo: true } } }\nadmin: false\n";
    await using gateway = await startGateway(["run", "--port", "0", "--config", folder.write("c.yaml", config)]);
    const { exitCode, stderr } = await headgate(["tools", gateway.url]);
    expect([exitCode, stderr]).toEqual([4, expect.stringMatching(/HTTP 404.*\/a\/mcp.*\/b\/mcp/u)]);
  });
});

describe("headgate traffic --config", () => {
  it("shows no recordings of other gateways", async () => {
    using folder = testFolder();
    const config = folder.write("c.yaml", "upstream: { demo: true }\n");
    const { exitCode, stdout, stderr } = await headgate(["traffic", "--config", config]);
    expect([exitCode, stdout]).toEqual([2, ""]);
    expect(stderr).toContain("records nothing; set `record: true` in it, or pass --store");
  });
});
