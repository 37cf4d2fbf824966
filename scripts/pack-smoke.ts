// Packs the package as npm would publish it, checks the tarball, installs it in an empty folder and uses it from there.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";

import { exportPaths, packInto, tryPackage } from "./run/package.ts";

const folder = mkdtempSync(join(tmpdir(), "headgate-pack-"));

try {
  const tarball = await packInto(folder);
  const home = join(folder, "home");
  mkdirSync(home);
  await tryPackage(tarball, home);
  console.log(`${basename(tarball)} installs, type-checks and serves; ${exportPaths().join(", ")} load from it`);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
} finally {
  rmSync(folder, { recursive: true, force: true });
}
