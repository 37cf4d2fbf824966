import { mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { describe, expect, it } from "vitest";
import { parse } from "yaml";

import { startGateway } from "../support/gateway.ts";
import { headgate, headgateBin, testFolder } from "../support/headgate-command.ts";

const server = { command: process.execPath, args: [headgateBin, "stdio"] };

function routesOf(folder: string): unknown {
  const { routes } = parse(readFileSync(join(folder, "headgate.yaml"), "utf8")) as { readonly routes: unknown };
  return routes;
}

describe("headgate init", () => {
  it("writes a configuration from files of clients, without their secrets, that check and run take", async () => {
    using folder = testFolder();
    const claude = folder.write(
      "claude.json",
      JSON.stringify({
        numStartups: 3,
        mcpServers: {
          "My Demo": { ...server, env: { API_TOKEN: "very-secret", MODE: "fast", SHARED: "${HOME}" } },
          docs: { type: "http", url: "https://docs.example/mcp", headers: { Authorization: "Bearer very-secret" } },
          gateway: { type: "http", url: "http://127.0.0.1:8484/docs/mcp" },
        },
      }),
    );
    const codex = folder.write("config.toml", '[mcp_servers.docs]\ncommand = "docs"\nargs = ["-x"]\n');
    const { exitCode, stderr } = await headgate(["init", claude, codex], { cwd: folder.path });
    expect([exitCode, stderr]).toEqual([
      0,
      expect.stringContaining("wrote headgate.yaml with 3 servers\n  set API_TOKEN, DOCS_AUTHORIZATION, HOME, then\n"),
    ]);
    expect(readFileSync(join(folder.path, "headgate.yaml"), "utf8")).not.toContain("very-secret");
    expect(routesOf(folder.path)).toEqual({
      "my-demo": {
        upstream: { ...server, env: { API_TOKEN: "${env:API_TOKEN}", MODE: "fast", SHARED: "${env:HOME}" } },
      },
      docs: {
        upstream: { url: "https://docs.example/mcp", headers: { Authorization: "Bearer ${env:DOCS_AUTHORIZATION}" } },
      },
      "docs-2": { upstream: { command: "docs", args: ["-x"] } },
    });
    const env = { API_TOKEN: "a-token-value", DOCS_AUTHORIZATION: "another-value" };
    expect(await headgate(["check"], { cwd: folder.path, env })).toMatchObject({ exitCode: 0 });
    await using gateway = await startGateway(["run", "--port", "0", "--admin-port", "0"], { cwd: folder.path, env });
    expect((await headgate(["tools", `${gateway.origin}/my-demo/mcp`])).stdout).toContain("add a=NUMBER b=NUMBER");
  });

  it("finds the files of clients by itself", async () => {
    using folder = testFolder();
    mkdirSync(join(folder.path, ".vscode"));
    folder.write(".vscode/mcp.json", `{ "servers": { "demo": ${JSON.stringify(server)} }, "inputs": [] } // end`);
    folder.write(
      ".claude.json",
      JSON.stringify({ projects: { "/x": { mcpServers: { far: { url: "https://far.example/mcp" } } } } }),
    );
    const { exitCode, stderr } = await headgate(["init"], { cwd: folder.path, env: { HOME: folder.path } });
    expect([exitCode, stderr]).toEqual([0, expect.stringContaining("taking demo from .vscode/mcp.json")]);
    expect(Object.keys(routesOf(folder.path) as object)).toEqual(["demo", "far"]);
  });

  it("takes a URL, a command, or the demo server, and never replaces a file unasked", async () => {
    using folder = testFolder();
    const here = { cwd: folder.path, env: { HOME: folder.path } };
    expect(await headgate(["init"], here)).toMatchObject({ exitCode: 0 });
    expect(routesOf(folder.path)).toEqual({ demo: { upstream: { demo: true } } });
    expect(await headgate(["init"], here)).toMatchObject({
      exitCode: 2,
      stderr: expect.stringContaining("--force") as unknown,
    });
    const printed = await headgate(["init", "--upstream", "https://a.example/mcp", "-o", "-"], here);
    expect(parse(printed.stdout)).toMatchObject({
      routes: { "a.example": { upstream: { url: "https://a.example/mcp" } } },
    });
    await headgate(["init", "--force", "--", "npx", "-y", "@scope/server-x@1.2.3"], here);
    expect(routesOf(folder.path)).toEqual({
      "server-x": { upstream: { command: "npx", args: ["-y", "@scope/server-x@1.2.3"] } },
    });
    expect(await headgate(["init", "none.json"], { ...here, cwd: "/" })).toMatchObject({ exitCode: 2 });
  });
});

describe("headgate run with the file of a client", () => {
  it.each([
    ["claude.json", JSON.stringify({ numStartups: 1, mcpServers: { demo: server } })],
    [
      "mcp.json",
      `{ "inputs": [], /* VS Code */ "servers": { "demo": ${JSON.stringify({ type: "stdio", ...server })}, } }`,
    ],
    [
      "config.toml",
      `model = "x"\n[mcp_servers.demo]\ncommand = ${JSON.stringify(server.command)}\nargs = ${JSON.stringify(server.args)}\n`,
    ],
  ])("serves what is in %s, and notes what it ignores", async (name, text) => {
    using folder = testFolder();
    const file = folder.write(name, text);
    await using gateway = await startGateway(["run", "--config", file, "--port", "0", "--admin-port", "0"], {
      cwd: folder.path,
    });
    await gateway.process.waitForLine(/ignored, as not about servers: `\w+` \(warning\)/u);
    expect((await headgate(["tools", gateway.url])).stdout).toContain("add a=NUMBER b=NUMBER");
  });
});
