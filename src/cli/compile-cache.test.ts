import { chmodSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { cacheFolder, createPrivateFolder } from "./compile-cache.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "headgate-compiled-"));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

describe("the folder for compiled code", () => {
  it("is one of the user's own, and none where there is no user", () => {
    expect(cacheFolder({ HOME: "/home/ann" })).toBe("/home/ann/.cache/headgate/compiled");
    expect(cacheFolder({ HOME: "/home/ann", XDG_CACHE_HOME: "/cache" })).toBe("/cache/headgate/compiled");
    expect(cacheFolder({ HOME: "", XDG_CACHE_HOME: "" })).toBeUndefined();
    expect(cacheFolder({})).toBeUndefined();
  });

  it("is made for its owner alone", () => {
    const made = join(folder, "headgate", "compiled");
    expect(createPrivateFolder(made)).toBe(true);
    expect(statSync(made).mode & 0o777).toBe(0o700);
  });

  it("is not used where others can write, or where it cannot be made", () => {
    chmodSync(folder, 0o777);
    expect(createPrivateFolder(folder)).toBe(false);
    expect(createPrivateFolder(join(folder, "compiled"))).toBe(false);
    writeFileSync(join(folder, "file"), "");
    expect(createPrivateFolder(join(folder, "file", "compiled"))).toBe(false);
  });
});
