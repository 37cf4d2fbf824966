import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { packedKongCommand } from "../support/fake-kong/packed-package.ts";
import { packingMs, startPackedServer } from "../support/fake-kong/rig.ts";

let bin: string;
beforeAll(async () => {
  bin = await packedKongCommand();
}, packingMs);

interface Result {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

function run(...args: readonly string[]): Promise<Result> {
  const { promise, resolve } = Promise.withResolvers<Result>();
  execFile(process.execPath, [bin, ...args], (error, out, err) => {
    resolve({ code: typeof error?.code === "number" ? error.code : 0, out, err });
  });
  return promise;
}

/** Runs a command without any environment, as nginx's workers do. */
function runBare(command: string, ...args: readonly string[]): Promise<Result> {
  const { promise, resolve } = Promise.withResolvers<Result>();
  execFile(command, args, { env: {} }, (error, out, err) => {
    resolve({ code: typeof error?.code === "number" ? error.code : 0, out, err });
  });
  return promise;
}

describe("headgate-kong", () => {
  it.each([
    [["--query"], ["access", "response"]],
    [["--query", "--access-only"], ["access"]],
  ])("[PX-07] [PA-200] prints exactly one JSON document for %j, and ends", async (args, phases) => {
    const { code, out, err } = await run(...args);
    expect([code, err]).toEqual([0, ""]);
    expect(JSON.parse(out)).toMatchObject([
      { Name: "idpartners-ping-authorize", Version: "2.1.0", Priority: 999, Phases: phases },
    ]);
    expect(out.trim().split("\n")).toHaveLength(1);
  });

  it("[PX-07] starts as Kong starts it: from its link, without any environment", async () => {
    const prefix = mkdtempSync(join(tmpdir(), "headgate-prefix-"));
    const socket = join(prefix, "kong.sock");
    try {
      // As npm installs it: a link in bin/, with Node beside it.
      mkdirSync(join(prefix, "bin"));
      symlinkSync(process.execPath, join(prefix, "bin/node"));
      symlinkSync(join(dirname(bin), "headgate-kong"), join(prefix, "bin/headgate-kong"));
      const command = join(prefix, "bin/headgate-kong");
      const queried = await runBare(command, "--query");
      expect([queried.code, queried.err]).toEqual([0, ""]);
      expect(JSON.parse(queried.out)).toMatchObject([{ Name: "idpartners-ping-authorize" }]);
      const child = spawn(command, ["--socket", socket], { env: {}, stdio: ["ignore", "ignore", "pipe"] });
      const ended = once(child, "exit");
      for await (const chunk of child.stderr) if (String(chunk).includes('"msg":"listening"')) break;
      expect(existsSync(socket)).toBe(true);
      // The shell became Node: a signal reaches it.
      child.kill("SIGTERM");
      expect(await ended).toEqual([0, null]);
    } finally {
      rmSync(prefix, { recursive: true });
    }
  });

  it("[PX-07] takes no Node that is too old, and says which it found", async () => {
    const prefix = mkdtempSync(join(tmpdir(), "headgate-prefix-"));
    try {
      const old = join(prefix, "node");
      writeFileSync(old, "#!/bin/sh\necho 20.0.0\n", { mode: 0o755 });
      // A copy of the launcher alone, where no other Node is near.
      const launcher = readFileSync(join(dirname(bin), "headgate-kong"), "utf8");
      const elsewhere = launcher
        .replaceAll(/ (?:\/usr(?:\/local)?|\/opt\/node)\/bin\/node/gu, "")
        .replace(' "$(command -v node)"', "");
      expect(elsewhere).not.toBe(launcher);
      writeFileSync(join(prefix, "headgate-kong"), elsewhere, { mode: 0o755 });
      const { code, out, err } = await runBare(join(prefix, "headgate-kong"), "--query");
      expect([code, out]).toEqual([1, ""]);
      expect(err).toContain(`${old} (20.0.0)`);
    } finally {
      rmSync(prefix, { recursive: true });
    }
  });

  it("tells how it is used, and its version", async () => {
    expect(await run("--help")).toMatchObject({
      code: 0,
      out: expect.stringContaining("--socket PATH") as unknown,
    });
    expect(await run("--version")).toEqual({ code: 0, out: "2.1.0\n", err: "" });
  });

  it("says in one line what is wrong, and leaves standard output empty", async () => {
    const folder = mkdtempSync(join(tmpdir(), "headgate-kong-"));
    for (const [args, words] of [
      [[], "expected --query or --socket PATH"],
      [["--dump-all-plugins"], "Unknown option '--dump-all-plugins'"],
      [["--socket", join(folder, "none/kong.sock")], "does not exist"],
      [["--socket", folder], "is not a socket"],
    ] as const) {
      const { code, out, err } = await run(...args);
      expect([code > 0, out, err]).toEqual([true, "", expect.stringContaining(words)]);
      expect(err.trim().split("\n")).toHaveLength(1);
    }
    rmSync(folder, { recursive: true });
  });

  it("[PA-200] ends by itself when told to stop", async () => {
    await using server = await startPackedServer();
    const child = await server.start();
    expect(await child.stop()).toEqual({ code: 0, signal: null });
  });
});
