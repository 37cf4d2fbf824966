import { afterEach, describe, expect, it, vi } from "vitest";

import { runTool } from "./tool.ts";

const cwd = import.meta.dirname;

afterEach(() => {
  vi.unstubAllEnvs();
});

describe("runTool", () => {
  it("returns exit code and both outputs", async () => {
    const script = `console.log("out"); console.error("err"); process.exitCode = 3`;
    const { exitCode, output } = await runTool(["node", "--eval", script], { cwd });
    expect(exitCode).toBe(3);
    expect(output.split("\n").toSorted()).toEqual(["err", "out"]);
  });

  it("runs the Node of the package, whatever the machine has", async () => {
    const { output } = await runTool(["node", "--version"], { cwd });
    expect(output).toBe(process.version);
  });

  it("does not tell a command which npm script runs it, but how npm is configured", async () => {
    for (const name of ["npm_package_name", "npm_lifecycle_event", "npm_command", "npm_config_cache"])
      vi.stubEnv(name, "set");
    const script = `console.log(Object.keys(process.env).filter((name) => process.env[name] === "set").join())`;
    expect((await runTool(["node", "--eval", script], { cwd })).output).toBe("npm_config_cache");
  });

  it("reports a command that does not exist as failed", async () => {
    const { exitCode, output } = await runTool(["headgate-no-such-tool"], { cwd });
    expect(exitCode).not.toBe(0);
    expect(output).toContain("headgate-no-such-tool");
  });

  it("ends a command that takes too long and says so", async () => {
    const { exitCode, output } = await runTool(["node", "--eval", "setInterval(() => {}, 1000)"], {
      cwd,
      timeoutMs: 50,
    });
    expect(exitCode).not.toBe(0);
    expect(output).toContain("was ended by SIGTERM");
  });
});
