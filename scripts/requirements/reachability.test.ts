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

  it("is not asked for where a test starts a program", () => {
    expect(problems(citing("", 'import { spawn } from "node:child_process";'))).toEqual([]);
  });
});
