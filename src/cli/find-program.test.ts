import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { isProgram } from "./find-program.ts";

const folder = mkdtempSync(join(tmpdir(), "headgate-command-"));
writeFileSync(join(folder, "runs"), "#!/bin/sh\n");
chmodSync(join(folder, "runs"), 0o755);
writeFileSync(join(folder, "data"), "");
chmodSync(join(folder, "data"), 0o644);
afterAll(() => {
  rmSync(folder, { recursive: true });
});

describe("isProgram", () => {
  const env = { PATH: `/nowhere:${folder}` };

  it("finds a name in PATH and a path as it is", () => {
    expect(isProgram("runs", env)).toBe(true);
    expect(isProgram(join(folder, "runs"), {})).toBe(true);
  });

  it("does not take a folder, a file without rights or a name that is nowhere", () => {
    for (const program of ["nosuch", "data", folder, join(folder, "nosuch")]) {
      expect([program, isProgram(program, env)]).toEqual([program, false]);
    }
  });
});
