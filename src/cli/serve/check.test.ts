import { describe, expect, it } from "vitest";

import { check } from "./check.ts";

const files: Readonly<Record<string, string>> = {
  "good.yaml": `listen: { host: "::1" }
routes:
  files: { upstream: { command: npx, args: [-y, files, "--key=\${env:KEY}"] } }
  weather: { upstream: { url: https://weather.example/mcp } }
`,
  "bad.yaml": "routes:\n  files: { upstrem: { command: npx } }\n",
  "servers.json": '{ "mcpServers": { "Files": { "command": "files", "autoApprove": [] } } }',
};

async function run(...args: string[]) {
  let [out, err] = ["", ""];
  const exitCode = await check(["--only-file", ...args], {
    out: (text) => (out += text),
    err: (text) => (err += text),
    env: { KEY: "hunter-key" },
    readFile: async (path) => {
      const text = files[path];
      if (text === undefined) throw Object.assign(new Error("ENOENT"), { code: "ENOENT" });
      return Promise.resolve(text);
    },
  });
  return { exitCode, out, err };
}

describe("headgate check", () => {
  it("says what a right configuration amounts to, without its secrets", async () => {
    expect(await run("good.yaml")).toEqual({
      exitCode: 0,
      out: `ok: 2 routes on http://[::1]:8484
  files    /files/mcp    npx -y files --key=(secret)
  weather  /weather/mcp  https://weather.example/mcp
`,
      err: "",
    });
  });

  it("takes the file as `run` does, and only one", async () => {
    for (const option of ["--config", "-c"]) expect(await run(option, "good.yaml")).toEqual(await run("good.yaml"));
    const both = await run("--config", "good.yaml", "bad.yaml");
    expect(both).toMatchObject({ exitCode: 2, out: "", err: expect.stringContaining("expected one FILE") });
  });

  it("says each problem with its place and ends with 2", async () => {
    expect(await run("bad.yaml")).toEqual({
      exitCode: 2,
      out: "",
      err: "bad.yaml:2:12 routes.files: unknown key `upstrem`; did you mean `upstream`?\n",
    });
  });

  it("mentions what is ignored in the configuration of a client", async () => {
    expect(await run("servers.json")).toEqual({
      exitCode: 0,
      out: "ok: 1 route on http://127.0.0.1:8484\n  files  /files/mcp /mcp  files\n",
      err: `servers.json:1:50 mcpServers.Files: \`autoApprove\` is ignored (warning)
servers.json:1:19 mcpServers.Files: is served as route \`files\` (warning)
`,
    });
  });

  it("says in one line that no such file", async () => {
    expect(await run("none.yaml")).toEqual({
      exitCode: 2,
      out: "",
      err: "none.yaml cannot be read: no such file\n",
    });
  });

  it.each([
    [[], "no headgate.yaml in this folder; name a FILE, or write one with `headgate init`"],
    [["a", "b"], "expected one FILE"],
  ])("expects one file (%j)", async (args, message) => {
    const err = `headgate check: ${message}\nRun headgate check --help for usage.\n`;
    expect(await run(...args)).toEqual({ exitCode: 2, out: "", err });
  });
});
