import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";

import { expect, it } from "vitest";

const root = resolve(import.meta.dirname, "../..");
const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as {
  readonly files: readonly string[];
  readonly homepage: string;
  readonly bugs: string;
  readonly repository: { readonly url: string };
};
/** npm packs these besides `files`. */
const packed = [...manifest.files, "README.md", "LICENSE", "package.json"];
const repository = manifest.repository.url.replace(/^git\+/u, "").replace(/\.git$/u, "");

const links = [...readFileSync(join(root, "README.md"), "utf8").matchAll(/\]\((?<link>[^)\s]+)\)/gu)].map(
  ({ groups }) => groups?.["link"] ?? "",
);

function isPacked(path: string): boolean {
  return packed.some((entry) => path === entry || path.startsWith(`${entry}/`));
}

// The README is also the page of the package: in node_modules only what is packed stands beside it.
it("the README links to files of the package, or by their address in the repository", () => {
  const relative = links.filter((link) => !/^(?:https?:|#)/u.test(link)).map((link) => link.split("#")[0] ?? "");
  expect(relative.length).toBeGreaterThan(10);
  expect(relative.filter((path) => !isPacked(path))).toEqual([]);
});

it("addresses in the repository name files that exist", () => {
  const own = links.filter((link) => link.startsWith(`${repository}/`));
  const paths = own.map((link) => link.replace(/^.*\/(?:blob|tree)\/main\//u, ""));
  expect(paths.length).toBeGreaterThan(0);
  expect(paths.filter((path) => !existsSync(join(root, path)))).toEqual([]);
});

it("package.json says where the project lives", () => {
  expect(repository).toMatch(/^https:\/\/github\.com\/[\w-]+\/[\w-]+$/u);
  expect([manifest.homepage, manifest.bugs]).toEqual([`${repository}#readme`, `${repository}/issues`]);
});
