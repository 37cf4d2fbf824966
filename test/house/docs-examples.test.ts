import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { runTool } from "../../scripts/run/tool.ts";

const root = resolve(import.meta.dirname, "../..");
const guides = join(root, "docs/guides");
const fence = /^```ts run\n(?<code>[\s\S]*?)^```$/gmu;

/** Import paths of the package, as the checkout has them. */
const sources: readonly (readonly [RegExp, string])[] = [
  [/"headgate\/protocol"/gu, JSON.stringify(join(root, "src/protocol/index.ts"))],
  [/"headgate\/testing"/gu, JSON.stringify(join(root, "src/testing.ts"))],
  [/"headgate"/gu, JSON.stringify(join(root, "src/index.ts"))],
];

describe("examples in the guides", () => {
  for (const file of readdirSync(guides).filter((name) => name.endsWith(".md"))) {
    const blocks = [...readFileSync(join(guides, file), "utf8").matchAll(fence)].map(
      ({ groups }) => groups?.["code"] ?? "",
    );
    for (const [index, block] of blocks.entries()) {
      it(`[SC-074] ${file} block ${index + 1} runs`, async () => {
        const folder = mkdtempSync(join(tmpdir(), "headgate-docs-"));
        try {
          const code = sources.reduce((text, [name, path]) => text.replaceAll(name, path), block);
          writeFileSync(join(folder, "example.mts"), code);
          const { exitCode, output } = await runTool(["node", join(folder, "example.mts")], { cwd: root });
          expect([exitCode, output]).toEqual([0, ""]);
        } finally {
          rmSync(folder, { recursive: true });
        }
      });
    }
  }

  it("are there: the public functions of the protocol core have runnable examples", () => {
    const guide = readFileSync(join(guides, "protocol.md"), "utf8");
    for (const name of [
      "parse",
      "metadataOf",
      "replaceMember",
      "createSseDecoder",
      "mirroredHeadersOf",
      "createLabeler",
    ]) {
      expect([name, guide.includes(`${name}(`)]).toEqual([name, true]);
    }
  });
});
