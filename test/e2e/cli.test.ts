import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";

import { describe, expect, it } from "vitest";

const root = resolve(import.meta.dirname, "../..");
const bin = resolve(root, "bin/headgate.mjs");

interface Ended {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the command as a user's shell would, with extra arguments for Node in front. */
async function headgate(args: readonly string[], nodeArgs: readonly string[] = []): Promise<Ended> {
  const { promise, resolve: finish } = Promise.withResolvers<Ended>();
  execFile(process.execPath, [...nodeArgs, bin, ...args], { cwd: root }, (error, stdout, stderr) => {
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
    expect(await headgate(["--version"])).toEqual({ exitCode: 0, stdout: `${version}\n`, stderr: "" });
  });

  it("explains itself when asked", async () => {
    const { exitCode, stdout } = await headgate(["--help"]);
    expect(exitCode).toBe(0);
    expect(stdout).toMatch(/^usage: headgate /u);
  });

  it("says what is there and what is not, and does not pretend to serve", async () => {
    const { exitCode, stdout } = await headgate([]);
    expect(exitCode).toBe(0);
    expect(stdout).toContain("headgate/protocol");
    expect(stdout).toContain("not in this version yet");
  });

  it("refuses arguments it does not know", async () => {
    const { exitCode, stdout, stderr } = await headgate(["serve", "--port", "80"]);
    expect(exitCode).toBe(2);
    expect(stdout).toBe("");
    expect(stderr).toContain("unknown arguments: serve --port 80");
  });

  it.each(["20.20.2", "22.18.0", "18.0.0"])("says in one line that Node %s is too old", async (version) => {
    const { exitCode, stdout, stderr } = await headgate(["--version"], pretendNode(version));
    expect(exitCode).toBe(1);
    expect(stdout).toBe("");
    expect(stderr.trimEnd().split("\n")).toHaveLength(1);
    expect(stderr).toContain(`headgate needs Node 24 or newer; this is Node ${version}`);
  });
});
