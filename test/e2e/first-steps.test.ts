import { execFile } from "node:child_process";
import { mkdirSync, symlinkSync } from "node:fs";
import { createServer } from "node:net";
import { once } from "node:events";
import { join, resolve } from "node:path";

import { describe, expect, it } from "vitest";

import { startGateway } from "../support/gateway.ts";
import { headgate, headgateBin, testFolder } from "../support/headgate-command.ts";
import { startProcess } from "../support/process.ts";

const root = resolve(import.meta.dirname, "../..");

/** A port that is taken until the scope ends. */
async function takenPort() {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return { port: address.port, [Symbol.asyncDispose]: async () => void server.close() };
}

describe("a port in use", () => {
  it("is told with the option that chooses another", async () => {
    await using busy = await takenPort();
    const { exitCode, stderr } = await headgate(["run", "--port", String(busy.port)]);
    expect([exitCode, stderr]).toEqual([
      1,
      `headgate: 127.0.0.1:${busy.port} is in use by another process; choose another port with --port or \`listen.port\`, or stop that process\n`,
    ]);
  });

  it("is told for the admin port too", async () => {
    await using busy = await takenPort();
    using folder = testFolder();
    const config = folder.write(
      "c.yaml",
      `upstream: { demo: true }\nlisten: { port: 0 }\nadmin: { port: ${busy.port} }\n`,
    );
    const { exitCode, stderr } = await headgate(["run", "--config", config]);
    expect([exitCode, stderr]).toEqual([
      1,
      expect.stringContaining("choose another port with --admin-port or `admin.port`"),
    ]);
  });
});

describe("a data folder that cannot be made", () => {
  it("costs the recording, and the start says so in plain words", async () => {
    using folder = testFolder();
    const env = { XDG_DATA_HOME: folder.write("file", "") };
    await using gateway = await startGateway(["run", "--port", "0"], { cwd: folder.path, env });
    await gateway.process.waitForLine(/Ctrl\+C/u);
    const output = gateway.process.output();
    expect(output).toContain("file is not a folder; set `record.file`, or XDG_DATA_HOME");
    expect(output).not.toContain("recording to");
    expect(output).not.toMatch(/"stack"|\n\s+at /u);
    folder.write("c.yaml", "upstream: { demo: true }\nadmin: false\nlisten: { port: 0 }\nrecord: true\n");
    const { exitCode, stderr } = await headgate(["check", "c.yaml"], { cwd: folder.path, env });
    expect([exitCode, stderr]).toEqual([0, expect.stringContaining("nothing will be recorded")]);
  });
});

describe("a file that cannot be written", () => {
  it.each([
    [["init", "--output", "FILE/x.yaml", "--", "npx"], "cannot open FILE/x.yaml: a part of the path is not a folder"],
    [["init", "--output", "none/x.yaml", "--", "npx"], "there is no folder none"],
    [["init", "--force", "--output", ".", "--", "npx"], "cannot open .: it is a folder"],
  ])("is named with the reason, and the exit code is 2: %j", async (args, expected) => {
    using folder = testFolder();
    folder.write("FILE", "");
    const { exitCode, stdout, stderr } = await headgate(args, { cwd: folder.path });
    expect({ exitCode, stdout, stderr }).toEqual({ exitCode: 2, stdout: "", stderr: `headgate init: ${expected}\n` });
  });
});

describe("the welcome", () => {
  it("prints the command that this user has", async () => {
    using folder = testFolder();
    mkdirSync(join(folder.path, "node_modules/.bin"), { recursive: true });
    const installed = join(folder.path, "node_modules/.bin/headgate");
    symlinkSync(headgateBin, installed);
    // The tests themselves may run under npm.
    const env = { npm_package_name: undefined, npm_command: undefined, npm_lifecycle_event: undefined };
    await using direct = await startProcess([process.execPath, installed, "run", "--port", "0"], {
      cwd: folder.path,
      env,
    });
    await direct.waitForLine(/Ctrl\+C/u);
    expect(direct.output()).toMatch(/^ {4}npx headgate call http:\S+ add a=2 b=40$/mu);
    const scripted = { npm_package_name: "headgate", npm_command: "run", npm_lifecycle_event: "start" };
    await using script = await startGateway(["run", "--port", "0"], { env: scripted });
    await script.process.waitForLine(/Ctrl\+C/u);
    expect(script.process.output()).toContain(`    npm run -s headgate -- call ${script.url} add a=2 b=40`);
  });
});

describe("headgate run in a folder", () => {
  it("uses its headgate.yaml and says so", async () => {
    using folder = testFolder();
    folder.write("headgate.yaml", "routes: { harbor: { upstream: { demo: true } } }\nadmin: false\n");
    await using gateway = await startGateway(["run", "--port", "0"], { cwd: folder.path });
    await gateway.process.waitForLine(/^headgate: using headgate\.yaml of this folder$/u);
    expect(await headgate(["tools", `${gateway.origin}/harbor/mcp`])).toMatchObject({ exitCode: 0 });
  });

  it("serves what the arguments say, whatever file is there", async () => {
    using folder = testFolder();
    folder.write("headgate.yaml", "nonsense: true\n");
    const args = ["run", "--port", "0", "--", process.execPath, headgateBin, "stdio"];
    await using gateway = await startGateway(args, { cwd: folder.path });
    expect(gateway.process.output()).not.toContain("headgate.yaml");
  });
});

describe("options without a configuration", () => {
  it.each([
    [["run", "--upstream-header", "a: b"], "--upstream-header needs --upstream URL"],
    [["run", "--transport", "sse"], "--transport needs --upstream URL"],
    [["run", "--env", "A=b"], "--env needs a command after --"],
    [["stdio", "--upstream-header", "a: b", "--", "node"], "--upstream-header needs --upstream URL"],
    [["run", "--upstream", "http://127.0.0.1:9/mcp", "--upstream-header", "bad"], "--upstream-header takes NAME:VALUE"],
    [["run", "--upstream", "npx -y x"], "--upstream: `npx -y x` is not a URL; start a command with `-- npx -y x`"],
    [["run", "--upstream", "127.0.0.1:9/mcp"], "is not a URL; begin it with `http://` or `https://`"],
    [["run", "--upstream", "localhost:9/mcp"], "is not a URL; begin it with `http://` or `https://`"],
    [["doctor", "--upstream", "htp://x"], "--upstream: `htp://x` is not a URL; begin it with `http://` or `https://`"],
    [["init", "--upstream", "localhost:9"], "--upstream: `localhost:9` is not a URL; begin it with `http://`"],
    [["run", "npx", "-y", "x"], "unknown option -y; put `--` before a command to start"],
    [["run", "--env", "NO_SUCH_VARIABLE", "--", "node"], "--env NO_SUCH_VARIABLE: this variable is not set"],
  ])("that have no effect or no meaning are refused: %j", async (args, expected) => {
    const { exitCode, stderr } = await headgate(args);
    expect([exitCode, stderr]).toEqual([2, expect.stringContaining(expected)]);
  });

  it("record nothing, and let everybody in, if told so", async () => {
    const closed = await headgate(["run", "--port", "0", "--host", "0.0.0.0"]);
    expect([closed.exitCode, closed.stderr]).toEqual([2, expect.stringContaining("--allow-anonymous")]);
    const args = ["run", "--port", "0", "--host", "0.0.0.0", "--allow-anonymous", "--no-record"];
    await using gateway = await startGateway(args);
    expect(gateway.process.output()).not.toContain("recording to");
  });

  it("name the route after the server, so that recordings are told apart", async () => {
    using folder = testFolder();
    const env = { XDG_DATA_HOME: folder.path };
    await using demo = await startGateway(["run", "--port", "0"], { env });
    const { port } = new URL(demo.origin);
    await using proxy = await startGateway(["run", "--port", "0", "--upstream", demo.url], { env });
    await headgate(["call", "add", "a=1", "b=2", "--url", proxy.url]);
    const list = async (filter: string) => (await headgate(["traffic", filter, "--json"], { env })).stdout;
    await expect.poll(() => list("route:demo tool:add")).toContain('"add"');
    await expect.poll(() => list(`route:127.0.0.1-${port} tool:add`)).toContain('"add"');
  });
});

describe("a started command", () => {
  it("gets proxies, certificates and what --env passes, and the log says that it was started", async () => {
    using folder = testFolder();
    const script = folder.write(
      "server.mjs",
      `process.stderr.write(["HTTPS_PROXY","NODE_EXTRA_CA_CERTS","npm_config_registry","OWN","SHARED","OTHER"]
        .map((name) => name + "=" + process.env[name]).join(" ") + "\\n");
       setTimeout(() => process.exit(3), 100);`,
    );
    const certificate = folder.write("corp.pem", "");
    const env = {
      HTTPS_PROXY: "http://proxy.corp:3128",
      NODE_EXTRA_CA_CERTS: certificate,
      npm_config_registry: "https://npm.corp",
      SHARED: "from-here",
      OTHER: "kept back",
    };
    const args = ["run", "--port", "0", "--env", "OWN=given", "--env", "SHARED", "--", process.execPath, script];
    await using gateway = await startGateway(args, { env });
    await headgate(["tools", gateway.url]);
    await gateway.process.waitForLine(/starting a server process/u);
    const [line] = await gateway.process.waitForLine(/HTTPS_PROXY=.*/u);
    expect(line).toContain("HTTPS_PROXY=http://proxy.corp:3128 NODE_EXTRA_CA_CERTS=");
    expect(line).toContain("npm_config_registry=https://npm.corp OWN=given SHARED=");
    expect(line).toContain("OTHER=undefined");
  });
});

describe("a reader that has seen enough", () => {
  it.each([
    ["schema"],
    ["--help"],
    ["help run"],
    ["drift"],
    ["traffic"],
    ["traffic stats"],
    ["tools -- node bin/headgate.mjs stdio"],
  ])("ends headgate %s without a word", async (command) => {
    const shell = `"${process.execPath}" "${headgateBin}" ${command} | true`;
    const { promise, resolve: done } = Promise.withResolvers<string>();
    execFile("sh", ["-c", shell], { cwd: root }, (_error, _out, stderr) => done(stderr));
    expect(await promise).not.toMatch(/EPIPE|\n\s+at /u);
  });
});
