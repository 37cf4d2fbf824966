import { existsSync, globSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

import { describe, expect, it } from "vitest";

import { configJsonSchema, schemasAt } from "../../src/config/json-schema.ts";

const root = resolve(import.meta.dirname, "../..");
const pages = ["*.md", "docs/**/*.md", "bench/*.md", "examples/**/*.md", "test/**/*.md"]
  .flatMap((pattern) => globSync(pattern, { cwd: root }))
  .filter((file) => !file.includes("node_modules") && file !== "CHANGELOG.md")
  .toSorted()
  .map((file) => {
    const text = readFileSync(join(root, file), "utf8");
    return { file, text, prose: text.replaceAll(/^```[^]*?^```$/gmu, "") };
  });

function matchesOf(text: string, pattern: RegExp): readonly string[] {
  return [...text.matchAll(pattern)].map(({ groups }) => groups?.["found"] ?? "");
}

const scripts = Object.keys(
  (JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { scripts: Record<string, string> }).scripts,
);

/** Whether a path of the repository exists; `…` and `<name>` stand for any name. */
function pathExists(path: string): boolean {
  const pattern = path.replaceAll(/…|<[^>]+>/gu, "*").replace(/:\d+$/u, "");
  return pattern.includes("*") ? globSync(pattern, { cwd: root }).length > 0 : existsSync(join(root, pattern));
}

/** The anchors that GitHub makes of the headings of a page. */
function anchorsOf(text: string): ReadonlySet<string> {
  return new Set(
    matchesOf(text, /^#+ (?<found>.+)$/gmu).map((heading) =>
      heading
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}\s_-]/gu, "")
        .replaceAll(" ", "-"),
    ),
  );
}

function linkProblem(file: string, link: string): string | undefined {
  const [target = "", anchor] = link.split("#");
  const path = target === "" ? file : join(dirname(file), target);
  if (!existsSync(join(root, path))) return link;
  if (anchor === undefined || !path.endsWith(".md")) return undefined;
  return anchorsOf(readFileSync(join(root, path), "utf8")).has(anchor) ? undefined : link;
}

const sections = Object.keys(configJsonSchema().properties ?? {});

/** Whether something in code is a key of the configuration by its look: `section.key`, with a section of ours. */
function isConfigKey(code: string): boolean {
  const [section = "", ...rest] = code.split(".");
  return sections.includes(section) && rest.length > 0 && /^[\w$.<>*[\]-]+$/u.test(code) && !code.endsWith(".md");
}

function configKeyExists(code: string): boolean {
  const steps = code
    .replaceAll(/\[\w*\]/gu, "")
    .split(".")
    .map((step) => (step.startsWith("<") || step === "*" ? "name" : step));
  return [steps, ["routes", "name", ...steps]].some((path) => schemasAt(path).length > 0);
}

/** Pages about other products' configurations, whose keys may look like ours. */
const foreign = /server-kit|agent-kit|kong|decisions/u;

const modules = globSync("{bench,console,docs,examples,scripts,src,test}/**/*.ts", { cwd: root });

describe("every page", () => {
  it("is found", () => {
    expect(pages.map(({ file }) => file)).toEqual(
      expect.arrayContaining(["README.md", "CONTRIBUTING.md", "docs/architecture.md", "docs/guides/policy.md"]),
    );
  });

  it.each(pages)("names only paths that exist: $file", ({ prose }) => {
    const roots = "bench|bin|docs|examples|requirements|schema|scripts|src|test";
    const paths = matchesOf(prose, new RegExp(`\`(?<found>(?:${roots})/[^\`\\s]*)\``, "gu"));
    expect(paths.filter((path) => !pathExists(path))).toEqual([]);
  });

  it.each(pages.filter(({ file }) => !file.startsWith("docs/guides/")))(
    "names only modules that exist: $file",
    ({ prose }) => {
      // `x.ts` stands for any module.
      const named = matchesOf(prose, /`(?<found>(?!x\.)[\w-]+(?:\/[\w-]+)*\.(?:test\.)?ts)`/gu);
      expect(named.filter((name) => !modules.some((path) => `/${path}`.endsWith(`/${name}`)))).toEqual([]);
    },
  );

  it.each(pages)("links only to pages and headings that exist: $file", ({ file, prose }) => {
    const links = matchesOf(prose, /\]\((?<found>(?!https?:|mailto:)[^)\s]+)\)/gu);
    expect(links.flatMap((link) => linkProblem(file, link) ?? [])).toEqual([]);
  });

  it.each(pages)("names only npm scripts that exist: $file", ({ text }) => {
    const named = matchesOf(text, /npm run (?:-s )?(?<found>[\w:-]+)/gu);
    expect(named.filter((script) => !scripts.includes(script))).toEqual([]);
  });

  it.each(pages.filter(({ file }) => !foreign.test(file)))(
    "names only configuration keys that exist: $file",
    ({ prose }) => {
      const keys = matchesOf(prose, /`(?<found>[^`\s:]+)(?:: [^`]*)?`/gu).filter(isConfigKey);
      expect(keys.filter((key) => !configKeyExists(key))).toEqual([]);
    },
  );
});
