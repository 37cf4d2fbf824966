import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { afterAll, describe, expect, it } from "vitest";

import { startGateway } from "../support/gateway.ts";

const root = resolve(import.meta.dirname, "../..");
const bin = resolve(root, "bin/headgate.mjs");
/** Recordings of the user who runs the tests stay untouched. */
const dataHome = mkdtempSync(join(tmpdir(), "headgate-cli-"));
afterAll(() => {
  rmSync(dataHome, { recursive: true, force: true });
});

interface Ended {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the command as a user's shell would, with extra arguments for Node in front. */
async function headgate(args: readonly string[], nodeArgs: readonly string[] = []): Promise<Ended> {
  const { promise, resolve: finish } = Promise.withResolvers<Ended>();
  const env = { ...process.env, XDG_DATA_HOME: dataHome };
  execFile(process.execPath, [...nodeArgs, bin, ...args], { cwd: root, env }, (error, stdout, stderr) => {
    finish({ exitCode: error === null ? 0 : Number(error.code), stdout, stderr });
  });
  return promise;
}

/** A module that makes the process believe it runs on another Node; loaded before the command. */
function pretendNode(version: string): string[] {
  const code = `Object.defineProperty(process, "versions", { value: { ...process.versions, node: "${version}" } });`;
  return ["--import", `data:text/javascript,${encodeURIComponent(code)}`];
}

describe("the headgate command", () => {
  it("prints its version", async () => {
    const { version } = JSON.parse(readFileSync(resolve(root, "package.json"), "utf8")) as {
      version: string;
    };
    const expected = { exitCode: 0, stdout: `${version}\n`, stderr: "" };
    expect(await headgate(["--version"])).toEqual(expected);
    expect(await headgate(["run", "--version"])).toEqual(expected);
  });

  it("explains itself when asked, with commands to copy", async () => {
    const { exitCode, stdout } = await headgate(["--help"]);
    expect(exitCode).toBe(0);
    expect(stdout).toContain("Usage:");
    for (const command of ["run", "stdio", "check", "schema", "tools", "call"])
      expect(stdout).toContain(`  ${command}`);
    const own = await headgate(["run", "--help"]);
    expect(own.stdout).toContain("headgate run --upstream");
  });

  it("serves a demo without any configuration, and says how to call it", async () => {
    await using gateway = await startGateway(["run", "--port", "0"]);
    const { exitCode, stdout } = await headgate(["call", "add", "a=2", "b=40", "--url", gateway.url]);
    expect([exitCode, stdout]).toEqual([0, expect.stringContaining("42")]);
    expect(gateway.process.output()).toContain(`call ${gateway.url} add a=2 b=40`);
    const unknown = await headgate(["call", "ad", "--url", gateway.url]);
    expect(unknown.exitCode).toBe(5);
    expect(unknown.stderr).toContain("add");
  });

  it("takes options without a command for those of run, also through npm start", async () => {
    await using gateway = await startGateway(["--port", "0"]);
    expect(gateway.url).toContain("127.0.0.1");
    const { exitCode, stderr } = await headgate(["--prot", "9000"]);
    expect(exitCode).toBe(2);
    expect(stderr).toContain("headgate run: unknown option --prot; did you mean --port?");
    const { scripts } = JSON.parse(readFileSync(resolve(root, "package.json"), "utf8")) as {
      scripts: Record<string, string>;
    };
    expect(scripts["start"]).toBe("node bin/headgate.mjs");
  });

  it.each([
    [["run", "--prot", "1"]],
    [["run", "stray"]],
    [["run", "--port", "x"]],
    [["stdio", "--no"]],
    [["stdio", "npx", "-y"]],
    [["check"]],
    [["schema", "x"]],
    [["key", "x"]],
    [["tools", "a", "b"]],
    [["call"]],
    [["traffic", "dur:slow"]],
    [["replay"]],
    [["diff", "a"]],
    [["policy", "try"]],
    [["drift", "try"]],
    [["nonsense"]],
  ])("ends with 2 for a usage error: %j", async (args) => {
    expect(await headgate(args)).toMatchObject({ exitCode: 2, stdout: "" });
  });

  it("refuses a command it does not know, and says which one was meant", async () => {
    const { exitCode, stdout, stderr } = await headgate(["rnu", "--port", "80"]);
    expect([exitCode, stdout]).toEqual([2, ""]);
    expect(stderr).toContain("headgate run");
  });

  it.each([
    ["a port in use", ["run", "--port", "PORT"], /is in use/u],
    ["a bad URL", ["run", "--upstream", "nonsense"], /is not a URL/u],
    ["a command that does not exist", ["run", "--", "no-such-command"], /no command `no-such-command`/u],
    ["a file that is not there", ["run", "--config", "/no/such/file.yaml"], /file\.yaml/u],
  ])("says in one line what is wrong with %s, and leaves with an error", async (_what, args, expected) => {
    await using busy = await startGateway(["run", "--port", "0"]);
    const port = new URL(busy.url).port;
    const { exitCode, stderr } = await headgate(args.map((arg) => (arg === "PORT" ? port : arg)));
    expect(exitCode).toBeGreaterThan(0);
    expect(stderr).toMatch(expected);
    expect(stderr.trimEnd().split("\n")).toHaveLength(1);
  });

  it.each(["20.20.2", "22.18.0", "18.0.0"])("says in one line that Node %s is too old", async (version) => {
    const { exitCode, stdout, stderr } = await headgate(["--version"], pretendNode(version));
    expect(exitCode).toBe(1);
    expect(stdout).toBe("");
    expect(stderr.trimEnd().split("\n")).toHaveLength(1);
    expect(stderr).toContain(`headgate needs Node 24 or newer; this is Node ${version}`);
  });
});
