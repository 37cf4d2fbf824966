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

  it("copies no secret, wherever a file of a client has one", async () => {
    const secret = "hunter2-hunter2";
    const servers: readonly (readonly [entry: object, upstream: object])[] = [
      [
        { url: `https://a.example/mcp?exaApiKey=${secret}&p=q` },
        { url: "https://a.example/mcp?exaApiKey=${env:S0_SECRET}&p=q" },
      ],
      [
        { url: `https://ann:${secret}@a.example/mcp` },
        { url: "https://a.example/mcp", headers: { Authorization: "Basic ${env:S1_AUTHORIZATION}" } },
      ],
      [{ args: [`--token=${secret}`, "-v"] }, { args: ["--token=${env:S2_SECRET}", "-v"] }],
      [{ args: ["--api-key", secret] }, { args: ["--api-key", "${env:S3_SECRET}"] }],
      [{ args: ["-H", `Authorization: Bearer ${secret}`] }, { args: ["-H", "Authorization: Bearer ${env:S4_SECRET}"] }],
      [
        { args: ["-e", `A_TOKEN=${secret}`, "-e", `B_TOKEN=${secret}-2`, "-e", "C=$HOME"] },
        { args: ["-e", "A_TOKEN=${env:S5_SECRET}", "-e", "B_TOKEN=${env:S5_SECRET_2}", "-e", "C=$HOME"] },
      ],
      [
        { args: [`postgres://u:${secret}@h/d`], env: { DATABASE_URL: `postgres://u:${secret}@h/d` } },
        { args: ["postgres://${env:S6_SECRET}@h/d"], env: { DATABASE_URL: "${env:DATABASE_URL}" } },
      ],
      // References stay what they are.
      [
        { args: ["--token", "${TOKEN}", "--api-key=${KEY:-}"] },
        { args: ["--token", "${env:TOKEN}", "--api-key=${env:KEY:-}"] },
      ],
    ];
    const named = (column: 0 | 1, key: string) =>
      Object.fromEntries(
        servers.map((row, index) => {
          const entry = { ...("url" in row[0] ? {} : { command: "x" }), ...row[column] };
          return [`s${index}`, key === "" ? entry : { [key]: entry }];
        }),
      );
    using folder = testFolder();
    const here = { cwd: folder.path, env: { TOKEN: secret, KEY: secret } };
    const file = folder.write("claude.json", JSON.stringify({ mcpServers: named(0, "") }));
    const { stdout } = await headgate(["init", file, "-o", "-"], here);
    expect(stdout).not.toContain("hunter2");
    expect(parse(stdout)).toMatchObject({ routes: named(1, "upstream") });
    // Nor is one shown, where the client's own file is used.
    const usable = Object.entries(named(0, "")).filter(([name]) => name !== "s1");
    folder.write("claude.json", JSON.stringify({ mcpServers: Object.fromEntries(usable) }));
    const checked = await headgate(["check", "--only-file", file], here);
    expect([checked.exitCode, checked.stdout]).toEqual([0, expect.not.stringContaining("hunter2")]);
  });

  it("says where in a file of a client a mistake is", async () => {
    using folder = testFolder();
    folder.write("claude.json", '{\n  "mcpServers": {\n    "a" 1\n  }\n}');
    const here = { cwd: folder.path };
    expect((await headgate(["init", "claude.json"], here)).stderr).toBe("claude.json:3:9 invalid JSON from here on\n");
    expect((await headgate(["init", "none.json"], here)).stderr).toBe("none.json cannot be read: no such file\n");
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
    await gateway.process.waitForLine(/ignored because they do not configure servers: `\w+` \(warning\)/u);
    expect((await headgate(["tools", gateway.url])).stdout).toContain("add a=NUMBER b=NUMBER");
  });
});
