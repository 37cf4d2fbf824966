import { execSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { expect, it, onTestFinished } from "vitest";

interface LockedPackage {
  readonly version?: string;
  readonly resolved?: string;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const root = resolve(import.meta.dirname, "../..");
const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8")) as {
  readonly packages: Readonly<Record<string, LockedPackage>>;
};
const locked = Object.entries(lock.packages);

// npm leaves a build out of the lock file when the registry did not have it; `npm ci` then fails on that system.
it("locks every native build that a package offers, for every system", () => {
  const names = new Set(locked.map(([path]) => path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length)));
  const missing = locked.flatMap(([path, entry]) =>
    Object.keys(entry.optionalDependencies ?? {})
      .filter((name) => !names.has(name))
      .map((name) => `${path}: ${name}`),
  );
  expect(missing).toEqual([]);
});

it.each(["darwin-arm64", "darwin-x64", "win32-x64", "linux-x64", "linux-arm64"])(
  "locks compiler, linter, formatter and bundler for %s",
  (system) => {
    const paths = locked.map(([path]) => path);
    const tools = ["@typescript/", "@oxlint/", "@oxlint-tsgolint/", "@oxfmt/", "@rolldown/"];
    expect(tools.filter((tool) => !paths.some((path) => path.includes(tool) && path.includes(system)))).toEqual([]);
  },
);

it("says what package.json says", () => {
  const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Readonly<Record<string, unknown>>;
  const members = ["bin", "dependencies", "devDependencies", "peerDependencies", "peerDependenciesMeta", "engines"];
  const own: Readonly<Record<string, unknown>> = { ...lock.packages[""] };
  expect(members.map((member) => own[member])).toEqual(members.map((member) => manifest[member]));
});

// Container images install from the two files alone, so that the layer is kept while the sources change.
it("can be installed from a folder that holds only the manifest and the lock file", () => {
  const { scripts } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
    readonly scripts: Readonly<Record<string, string>>;
  };
  const run = ["preinstall", "install", "postinstall", "prepublish", "preprepare", "prepare", "dependencies"];
  const cwd = mkdtempSync(join(tmpdir(), "headgate-install-"));
  onTestFinished(() => rmSync(cwd, { recursive: true }));
  const commands = run.flatMap((name) => scripts[name] ?? []);
  expect(commands.length).toBeGreaterThan(0);
  for (const command of commands) execSync(command, { cwd, stdio: "pipe" });
});

it("names no registry", () => {
  expect(locked.filter(([, entry]) => entry.resolved?.startsWith("http")).map(([path]) => path)).toEqual([]);
});
