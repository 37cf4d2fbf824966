import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
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
