import { globSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";

import { expect, it } from "vitest";

import config from "../../vitest.config.ts";

const root = resolve(import.meta.dirname, "../..");
const files = ["src/**/*.test.ts", "test/**/*.test.ts", "scripts/**/*.test.ts", "console/src/**/*.test.ts"]
  .flatMap((pattern) => globSync(pattern, { cwd: root }))
  .filter((file) => !file.endsWith("house/time-limits.test.ts"));

/** The time limit of a test in each project. */
const limits = new Map(
  (config.test?.projects ?? []).flatMap((project) =>
    typeof project === "object" && "test" in project ? [[project.test?.name, project.test?.testTimeout ?? 0]] : [],
  ),
);

/** Limits that a test file sets for itself: of a test or hook, by option or as the last argument. */
const ownLimits = [
  /(?:testTimeout|hookTimeout): (?<limit>[\d_]+)/gu,
  /^ *(?:\{ timeout: (?<limit>[\d_]+) \},|(?:it|test|describe)\b.*, \{ timeout: (?<same>[\d_]+) \}, .*)$/gmu,
  /^(?: {2})?\}, (?<limit>[\d_]+)\);$/gmu,
];

function tooShort(file: string, text: string): readonly string[] {
  const limit = limits.get(file.startsWith("test/e2e/") ? "e2e" : "unit") ?? 0;
  const own = ownLimits
    .flatMap((pattern) => [...text.matchAll(pattern)])
    .filter(({ groups }) => Number((groups?.["limit"] ?? groups?.["same"] ?? "").replaceAll("_", "")) < limit)
    .map(([match]) => `${file}: ${match.trim()} is less than the ${limit} ms of the project`);
  const waits = [...text.matchAll(/vi\.wait(?:For|Until)\(|\.poll\([^;]*?, \{ timeout/gu)].map(
    () => `${file}: waits with a limit of its own; use eventually(), or expect.poll without one`,
  );
  return [...own, ...waits];
}

it("finds the limits of both projects", () => {
  expect(limits.get("unit")).toBeGreaterThanOrEqual(60_000);
  expect(limits.get("e2e")).toBeGreaterThanOrEqual(60_000);
});

it.each([
  ["vi.setConfig({ testTimeout: 5000 });"],
  ['it("x", { timeout: 5000 }, async () => {});'],
  ["  it('x',\n    { timeout: 5000 },\n    async () => {});"],
  ["beforeAll(async () => {\n}, 5000);"],
  ["await vi.waitFor(() => expect(x).toBe(1));"],
  ["await expect.poll(() => x, { timeout: 1000, interval: 20 }).toBe(0);"],
])("recognises a short limit in %s", (text) => {
  expect(tooShort("src/x.test.ts", text)).toHaveLength(1);
});

it("no test has a shorter time limit than its project, because limits are for hangs and not for speed", () => {
  expect(files.flatMap((file) => tooShort(file, readFileSync(join(root, file), "utf8")))).toEqual([]);
});
