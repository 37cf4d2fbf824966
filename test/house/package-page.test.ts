import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join, normalize, resolve } from "node:path";

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

const pages = ["README.md", "CHANGELOG.md", "SECURITY.md", ...globSync("docs/**/*.md", { cwd: root }).toSorted()];
const links = pages.flatMap((page) => {
  const text = readFileSync(join(root, page), "utf8").replaceAll(/^```[^]*?^```$/gmu, "");
  return [...text.matchAll(/\]\((?<link>[^)\s]+)\)/gu)].map(({ groups }) => ({ page, link: groups?.["link"] ?? "" }));
});

function isPacked(path: string): boolean {
  return packed.some((entry) => path === entry || path.startsWith(`${entry}/`));
}

// The README is also the page of the package: in node_modules only what is packed stands beside it.
it("pages of the package link to files of the package, or by their address in the repository", () => {
  const relative = links.filter(({ link }) => !/^(?:https?:|mailto:|#)/u.test(link));
  expect(relative.length).toBeGreaterThan(100);
  const dead = relative.filter(({ page, link }) => !isPacked(normalize(join(dirname(page), link.split("#")[0] ?? ""))));
  expect(dead).toEqual([]);
});

it("addresses in the repository name files that exist", () => {
  const own = links.filter(({ link }) => /^\/(?:blob|tree)\/main\//u.test(link.replace(repository, "")));
  const paths = own.map(({ link }) => link.replace(/^.*\/(?:blob|tree)\/main\//u, "").replace(/#.*/u, ""));
  expect(paths.length).toBeGreaterThan(0);
  expect(paths.filter((path) => !existsSync(join(root, path)))).toEqual([]);
});

it("package.json says where the project lives", () => {
  expect(repository).toMatch(/^https:\/\/github\.com\/[\w-]+\/[\w-]+$/u);
  expect([manifest.homepage, manifest.bugs]).toEqual([`${repository}#readme`, `${repository}/issues`]);
});
