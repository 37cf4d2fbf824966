import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { reachProblems } from "./audit.ts";
import type { Checklist } from "./checklist.ts";
import { createModuleGraph, entryPoints, reachOfRows } from "./reachability.ts";

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "headgate-reach-"));
  for (const file of Object.values(entryPoints)) write(file, "export {};");
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function write(file: string, text: string): void {
  mkdirSync(dirname(join(root, file)), { recursive: true });
  writeFileSync(join(root, file), text);
}

/** What is wrong with the one row SC-001, whose test is given. */
function problems(test: string, library?: string): readonly string[] {
  write("src/a.test.ts", test);
  const graph = createModuleGraph(root);
  const reach = reachOfRows(graph, graph.citingTests(["src/a.test.ts"]));
  const row = { id: "SC-001", text: "x", status: "shown" as const, ...(library === undefined ? {} : { library }) };
  const checklist: Checklist = { checklist: "SC", title: "t", sections: [{ title: "s", rows: [row] }] };
  return reachProblems([checklist], reach);
}

const citing = (body: string, imports = 'import { act } from "./a.ts";') =>
  `${imports}\nit("[SC-001] acts", () => { ${body} });`;

describe("the code behind a requirement", () => {
  beforeEach(() => write("src/a.ts", "export function act() {} export function unused() {}"));

  it("is unreachable where only tests call it", () => {
    expect(problems(citing("act();"))).toEqual([
      "SC-001: no entry point reaches src/a.ts#act, which its tests exercise",
    ]);
  });

  it.each([
    ["a call", 'import { act } from "../a.ts"; function main() { act(); } main();'],
    ["a local function", 'import { act } from "../a.ts"; const run = () => act(); export function main() { run(); }'],
    ["another name", 'import { act as other } from "../a.ts"; export const main = other;'],
    ["a namespace", 'import * as all from "../a.ts"; export const main = all;'],
    ["a module loaded later", 'export const main = async () => (await import("../a.ts")).act();'],
    ["a worker", "export const main = () => new Worker(new URL(`../a${extname(import.meta.url)}`, import.meta.url));"],
    ["a re-export", 'export { act } from "../b.ts";'],
  ])("is reached through %s", (_, main) => {
    write("src/b.ts", 'export * from "./a.ts";');
    write(entryPoints.headgate, main);
    expect(problems(citing("act();"))).toEqual([]);
  });

  it.each([
    ["imported and never mentioned", 'import { act } from "../a.ts"; export const main = 1;'],
    ["imported as a type", 'import type { act } from "../a.ts"; export const main: typeof act = undefined;'],
    ["a member with the same name", 'import { unused } from "../a.ts"; export const main = () => unused().act;'],
    [
      "mentioned by something that nothing calls",
      'import { act } from "../a.ts"; const run = () => act(); export const main = 1;',
    ],
  ])("is not reached where it is %s", (_, main) => {
    write(entryPoints.headgate, main);
    expect(problems(citing("act();"))).toHaveLength(1);
  });

  it("is found through helpers of tests", () => {
    write("test/support/help.ts", 'import { act } from "../../src/a.ts"; export function help() { act(); }');
    expect(problems(citing("help();", 'import { help } from "../test/support/help.ts";'))).toHaveLength(1);
  });

  it("is not excused by another test of the row that starts a program", () => {
    write(entryPoints.protocol, 'export { act } from "../a.ts";');
    const whole = 'it("[SC-001] works as a whole", () => { spawn("headgate"); });';
    expect(problems(`${citing("act();")}\n${whole}`)).toHaveLength(1);
  });

  it("may be a promise of the protocol library alone, if the row says so", () => {
    write(entryPoints.protocol, 'export { act } from "../a.ts";');
    expect(problems(citing("act();"))).toEqual([
      'SC-001: only headgate/protocol exports src/a.ts#act; call it, or mark the row "library"',
    ]);
    expect(problems(citing("act();"), "headgate/protocol")).toEqual([]);
    write(entryPoints.headgate, 'import { act } from "../a.ts"; act();');
    expect(problems(citing("act();"), "headgate/protocol")).toEqual([
      "SC-001 is marked as a promise of headgate/protocol alone, but its tests use nothing that only it exports",
    ]);
  });

  describe.each([
    ["a method of a class", "export class Act { go() {} }", "new Act().go();"],
    [
      "a method of an interface",
      "export interface Thing { go(): void } export const Act = () => ({}) as Thing;",
      "Act().go();",
    ],
    [
      "a member that is a function",
      "export interface Thing { readonly go: () => void } export const Act = () => ({}) as Thing;",
      "Act()?.go();",
    ],
    [
      "an option",
      "export interface Options { readonly go?: boolean } export function Act(options: Options) {}",
      "Act({ go: true });",
    ],
    [
      "an option that is a function",
      "export interface Options { go?(): void } export function Act(options: Options) { options.go?.(); }",
      "Act({ go() {} });",
    ],
  ])("that is %s", (_, source, use) => {
    const test = (): readonly string[] => problems(citing(use, 'import { Act } from "./a.ts";'));
    beforeEach(() => {
      write("src/a.ts", source);
      write(entryPoints.headgate, 'import { Act } from "../a.ts"; export const main = () => Act;');
    });

    it("is unreachable where only tests use it, themselves or by a helper", () => {
      expect(test()).toEqual([expect.stringMatching(/^SC-001: only tests use the (?:method|option) go\b/u)]);
      write("test/support/help.ts", `import { Act } from "../../src/a.ts"; export function help() { ${use} }`);
      expect(problems(citing("help();", 'import { help } from "../test/support/help.ts";'))).toHaveLength(1);
    });

    it("is reached where the product uses it", () => {
      write("src/b.ts", "export const called = (thing) => thing.go(); export const options = { go: true };");
      expect(test()).toEqual([]);
    });

    it("is reached where users do", () => {
      write("docs/reference/api/headgate.md", "```ts\ninterface Options { readonly go?: boolean }\n```");
      expect(test()).toEqual([]);
    });
  });

  it.each([
    ["the whole citation", 'it.each([["[SC-001] one", 1]])("%s", () => { act(); });'],
    ["an id", 'it.each([["SC-001", 1]])("[%s] acts", () => { act(); });'],
  ])("is found by tests in tables, whose rows have %s", (_, test) => {
    expect(problems(`import { act } from "./a.ts";\n${test}`)).toHaveLength(1);
  });

  it("must be the code of a test that can be found", () => {
    expect(problems('const title = "[SC-001] acts"; it(title, () => {});')).toEqual([
      expect.stringContaining("SC-001: cannot tell which test cites it"),
    ]);
  });

  it("is not asked for where a test starts a program", () => {
    expect(problems(citing("", 'import { spawn } from "node:child_process";'))).toEqual([]);
  });
});
