import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { findCli } from "./cli-process.ts";

const name = process.platform === "win32" ? "claude.exe" : "claude";

describe("findCli", () => {
  let folder = "";
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "headgate-find-"));
    writeFileSync(join(folder, name), "");
    chmodSync(join(folder, name), 0o755);
    writeFileSync(join(folder, "cli.mjs"), "");
    writeFileSync(join(folder, "plain"), "");
    chmodSync(join(folder, "plain"), 0o644);
  });
  afterAll(() => {
    rmSync(folder, { recursive: true });
  });

  it("takes the path given, then the variable, then the search path", () => {
    const claude = join(folder, name);
    const path = ["relative", join(folder, "none"), folder].join(delimiter);
    expect(findCli(undefined, { PATH: path })).toEqual({ file: claude, args: [] });
    expect(findCli(undefined, { HEADGATE_CLAUDE_CLI: claude, PATH: "" })).toEqual({ file: claude, args: [] });
    const script = join(folder, "cli.mjs");
    expect(findCli(script, { HEADGATE_CLAUDE_CLI: claude })).toEqual({
      file: process.execPath,
      args: [script],
    });
  });

  it("[IP-060] says where it looked and how to set the path", () => {
    const missing = join(folder, "missing");
    expect(() => findCli(missing, {})).toThrow(
      expect.objectContaining({
        code: "cli_not_found",
        message: expect.stringMatching(/looked at: .*missing\).*cliPath.*HEADGATE_CLAUDE_CLI/u),
        details: { looked: [missing] },
      }),
    );
    expect(() => findCli(undefined, {})).toThrow(/PATH is empty/u);
    expect(() => findCli(folder, {})).toThrow(expect.objectContaining({ code: "cli_not_found" }));
    expect(() => findCli(join(folder, "plain"), {})).toThrow(expect.objectContaining({ code: "cli_not_found" }));
  });
});
