import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect, it, onTestFinished } from "vitest";

const root = resolve(import.meta.dirname, "../..");

/** What the guides make in the folders of the examples. */
const made = [
  "examples/deploy/gateway/headgate-0.1.0.tgz",
  "examples/deploy/gateway/headgate-keys",
  "examples/deploy/gateway/headgate-peers",
  "examples/kong/headgate-0.1.0.tgz",
];

it("packs the examples as they are, without the packages and secrets that following them leaves there", () => {
  const place = mkdtempSync(join(tmpdir(), "headgate-packed-"));
  onTestFinished(() => rmSync(place, { recursive: true }));
  cpSync(join(root, "package.json"), join(place, "package.json"));
  const tracked = execFileSync("git", ["ls-files", "examples/deploy/gateway", "examples/kong"], { cwd: root })
    .toString()
    .trim()
    .split("\n");
  for (const file of tracked) cpSync(join(root, file), join(place, file), { recursive: true });
  for (const file of made) writeFileSync(join(place, file), "made by hand");
  // A checkout does not offer them for a commit either.
  cpSync(join(root, ".gitignore"), join(place, ".gitignore"));
  execFileSync("git", ["init", "--quiet"], { cwd: place });
  const untracked = execFileSync("git", ["ls-files", "--others", "--exclude-standard", "examples"], { cwd: place });
  expect(untracked.toString().trim().split("\n").toSorted()).toEqual(tracked.toSorted());

  const listing = execFileSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], {
    cwd: place,
    stdio: ["ignore", "pipe", "ignore"],
  });
  const [packed] = JSON.parse(listing.toString()) as readonly {
    readonly files: readonly { readonly path: string }[];
  }[];
  const paths = (packed?.files ?? []).map(({ path }) => path).filter((path) => path.startsWith("examples/"));
  expect(paths.toSorted()).toEqual(tracked.toSorted());
});
