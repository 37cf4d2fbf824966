// Prepares a release: checks version and changelog, packs and tries the package, and leaves the tarball, a bill of
// materials and checksums in release/. Then publishes it; with --dry-run it only prints how.
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";

import { foreignFiles, releaseProblems } from "./release/checks.ts";
import { must, packInto, readManifest, tryPackage } from "./run/package.ts";

const root = resolve(import.meta.dirname, "..");
const folder = join(root, "release");
const isTrial = process.argv.includes("--dry-run");

try {
  await release();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
}

async function release(): Promise<void> {
  const { name, version } = readManifest();
  const problems = releaseProblems({
    version,
    lock: JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as unknown,
    changelog: readFileSync(join(root, "CHANGELOG.md"), "utf8"),
    changes: await must(["git", "status", "--porcelain"], root),
    tags: (await must(["git", "tag", "--list"], root)).split("\n"),
  });
  console.log(`${name} ${version}`);
  // A trial goes on: it shows everything that is still to do.
  for (const problem of problems) console.log(`to do: ${problem}`);
  if (problems.length > 0 && !isTrial) throw new Error("not released");

  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  const tarball = await packInto(folder);
  console.log("publint: no problems");
  await listContents(tarball);
  await tryInstalled(tarball);
  console.log("installed in an empty folder: imports, types, check, run and a call work");

  const materials = `${basename(tarball, ".tgz")}.cdx.json`;
  const sbom = await must(
    ["npm", "sbom", "--package-lock-only", "--omit", "dev", "--sbom-format", "cyclonedx", "--sbom-type", "library"],
    root,
  );
  writeFileSync(join(folder, materials), `${sbom}\n`);
  const sums = [basename(tarball), materials].map((file) => `${sha256(join(folder, file))}  ${file}`);
  writeFileSync(join(folder, "SHA256SUMS"), `${sums.join("\n")}\n`);
  console.log(`release/SHA256SUMS\n${sums.map((line) => `  ${line}`).join("\n")}`);

  // Provenance is signed by the CI that runs this; npm refuses the option elsewhere.
  const publish = ["npm", "publish", "--provenance", "--access", "public", tarball] as const;
  if (isTrial) console.log(`dry run; to publish: ${publish.slice(0, -1).join(" ")} release/${basename(tarball)}`);
  else console.log(await must(publish, root));
}

async function listContents(tarball: string): Promise<void> {
  const listing = await must(["npm", "pack", "--dry-run", "--json", "--ignore-scripts", tarball], root);
  const [packed] = JSON.parse(listing) as readonly {
    readonly files: readonly { readonly path: string; readonly size: number }[];
    readonly unpackedSize: number;
  }[];
  const files = packed?.files ?? [];
  const folders = Map.groupBy(files, ({ path }) => (path.includes("/") ? `${path.split("/")[0]}/` : path));
  console.log(`contents: ${files.length} files, ${kilobytes(packed?.unpackedSize ?? 0)}`);
  for (const [name, inside] of folders) {
    const size = inside.reduce((sum, file) => sum + file.size, 0);
    console.log(`  ${name.padEnd(16)}${String(inside.length).padStart(6)} files ${kilobytes(size).padStart(10)}`);
  }
  const strangers = foreignFiles(files.map(({ path }) => path));
  if (strangers.length > 0) throw new Error(`the tarball has files that nobody needs: ${strangers.join(", ")}`);
}

async function tryInstalled(tarball: string): Promise<void> {
  const home = mkdtempSync(join(tmpdir(), "headgate-release-"));
  try {
    await tryPackage(tarball, home);
  } finally {
    rmSync(home, { recursive: true, force: true });
  }
}

function sha256(file: string): string {
  return createHash("sha256").update(readFileSync(file)).digest("hex");
}

function kilobytes(bytes: number): string {
  return `${Math.ceil(bytes / 1000)} kB`;
}
