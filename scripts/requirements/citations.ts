import { globSync, readFileSync } from "node:fs";
import { join, relative, sep } from "node:path";

/** A test or benchmark that names a requirement in its title. */
export interface Citation {
  readonly id: string;
  /** The file that cites, with slashes, from the root of the repository. */
  readonly file: string;
}

/** Citations, and the brackets that look like one but are not in form. */
export interface Findings {
  readonly citations: readonly Citation[];
  readonly malformed: readonly { readonly text: string; readonly file: string }[];
}

/** Test files that CI runs and that may show requirements. Suites for products that CI lacks stand in test/opt-in/. */
const testGlobs = ["src/**/*.test.ts", "test/**/*.test.ts"];
const optInFolder = "test/opt-in/";

/** Reads the ids in the brackets that open a title: `[SC-034] …`, `[SC-034, SC-035] …`. Ranges are malformed. */
export function citedIn(title: string): {
  readonly ids: readonly string[];
  readonly malformed: readonly string[];
} {
  const ids: string[] = [];
  const malformed: string[] = [];
  const opening = /^(?:\s*\[[^\]]*\])+/u.exec(title)?.[0] ?? "";
  for (const [bracket] of opening.matchAll(/\[[^\]]*\]/gu)) {
    if (!/^\[(?:PA|PX|SC|KO|IP)\b/u.test(bracket)) continue;
    const parts = bracket.slice(1, -1).split(",");
    const trimmed = parts.map((part) => part.trim());
    if (trimmed.every((part) => /^[A-Z]{2}-\d+$/u.test(part))) ids.push(...trimmed);
    else malformed.push(bracket);
  }
  return { ids, malformed };
}

/** Finds citations in source text: in every string literal that opens with a bracket. */
export function citationsInSource(file: string, text: string): Findings {
  const titles = [...text.matchAll(/["'`](?<title>\[[^"'`\n]*)/gu)].map((match) => match.groups?.["title"] ?? "");
  return collect(titles.map((title) => ({ file, title })));
}

/** Finds the citations of tests that a vitest JSON report lists as passed; others show nothing. */
export function citationsInReport(root: string, report: unknown): Findings {
  return collect(
    passedTests(report).flatMap(({ file, titles }) =>
      titles.map((title) => ({ file: relative(root, file).split(sep).join("/"), title })),
    ),
  );
}

/** Citations in the sources of all tests that CI runs. */
export function testCitations(root: string): Findings {
  const files = globSync(testGlobs, { cwd: root }).map((file) => file.split(sep).join("/"));
  return joined(files.filter((file) => !file.startsWith(optInFolder)).map((file) => sourceFindings(root, file)));
}

/** Citations in the sources of all benchmarks. */
export function benchCitations(root: string): Findings {
  const files = globSync("bench/**/*.ts", { cwd: root }).map((file) => file.split(sep).join("/"));
  return joined(files.map((file) => sourceFindings(root, file)));
}

/** Citations of the tests that passed according to the JSON reports in a folder. */
export function reportCitations(root: string, folder: string): Findings {
  const files = globSync("*.json", { cwd: folder });
  return joined(
    files.map((file) => citationsInReport(root, JSON.parse(readFileSync(join(folder, file), "utf8")) as unknown)),
  );
}

function sourceFindings(root: string, file: string): Findings {
  return citationsInSource(file, readFileSync(join(root, file), "utf8"));
}

function collect(titles: readonly { readonly file: string; readonly title: string }[]): Findings {
  const read = titles.map(({ file, title }) => ({ file, ...citedIn(title) }));
  return {
    citations: read.flatMap(({ file, ids }) => ids.map((id) => ({ id, file }))),
    malformed: read.flatMap(({ file, malformed }) => malformed.map((text) => ({ text, file }))),
  };
}

function joined(findings: readonly Findings[]): Findings {
  return {
    citations: findings.flatMap(({ citations }) => citations),
    malformed: findings.flatMap(({ malformed }) => malformed),
  };
}

interface PassedTest {
  readonly file: string;
  /** The titles of the groups around the test, then its own. */
  readonly titles: readonly string[];
}

function passedTests(report: unknown): PassedTest[] {
  return listOf(report, "testResults").flatMap((result) => {
    const file = textOf(result, "name");
    return listOf(result, "assertionResults")
      .filter((test) => textOf(test, "status") === "passed")
      .map((test) => ({
        file,
        titles: [...listOf(test, "ancestorTitles").map(String), textOf(test, "title")],
      }));
  });
}

function listOf(value: unknown, name: string): readonly unknown[] {
  const member = memberOf(value, name);
  if (!Array.isArray(member)) throw new Error(`not a vitest report: no list "${name}"`);
  return member;
}

function textOf(value: unknown, name: string): string {
  const member = memberOf(value, name);
  if (typeof member !== "string") throw new Error(`not a vitest report: no text "${name}"`);
  return member;
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}
