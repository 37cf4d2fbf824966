import { describe, expect, it } from "vitest";

import { foreignFiles, releaseProblems, type ReleaseState } from "./checks.ts";

const ready: ReleaseState = {
  version: "1.2.0",
  lock: { version: "1.2.0" },
  changelog: "# Changelog\n\n## Unreleased\n\n## 1.2.0 (2026-11-16)\n\n- News\n",
  changes: "",
  tags: ["v1.1.0"],
};

describe("a release", () => {
  it("has nothing left to do", () => {
    expect(releaseProblems(ready)).toEqual([]);
  });

  it.each<[string, Partial<ReleaseState>]>([
    ["is not a version", { version: "next", lock: { version: "next" }, changelog: "## next 2026-11-16" }],
    ["package-lock.json has version 1.1.0", { lock: { version: "1.1.0" } }],
    ["package-lock.json has version undefined", { lock: null }],
    ["no section for 1.2.0", { changelog: "# Changelog\n\n## Unreleased\n\n## 1.2.0-rc.1 (2026-11-01)\n" }],
    ["has no date", { changelog: "## 1.2.0\n" }],
    ["commit them", { changes: " M README.md" }],
    ["the tag v1.2.0 exists", { tags: ["v1.2.0"] }],
  ])("waits where %s", (problem, change) => {
    expect(releaseProblems({ ...ready, ...change })).toEqual([expect.stringContaining(problem)]);
  });

  it("ships neither sources nor tests nor secrets", () => {
    const strangers = [
      "src/index.ts",
      "dist/x.test.js",
      "test/a.ts",
      ".env",
      "bin/key.pem",
      "examples/kong/headgate.tgz",
      "examples/deploy/gateway/headgate-keys",
      "examples/deploy/gateway/headgate-peers",
      "examples/deploy/gateway/.env",
    ];
    expect(
      foreignFiles([...strangers, "dist/index.js", "examples/kong/.dockerignore", "README.md", "dist/testing.js"]),
    ).toEqual(strangers);
  });
});
