import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { parseConfig } from "../../config/load.ts";
import type { Config } from "../../config/config.ts";
import { createInterceptorLoader } from "./interceptor-files.ts";

let folder: string;
beforeEach(() => (folder = mkdtempSync(join(tmpdir(), "headgate-interceptors-"))));
afterEach(() => rmSync(folder, { recursive: true }));

function configOf(file: string): Config {
  const result = parseConfig({ upstream: { demo: true }, interceptors: [{ file: join(folder, file) }] });
  if (!result.ok) throw new Error(JSON.stringify(result.problems));
  return result.config;
}

const rewriting = (file: string): string =>
  `import { writeFileSync } from "node:fs"; writeFileSync(${JSON.stringify(join(folder, file))}, "export const text = 2;");`;

describe("files of interceptors", () => {
  it("are known to have changed while they were loaded", async () => {
    const own = "export default () => ({ type: 'continue' });";
    writeFileSync(join(folder, "mine.mjs"), `${rewriting("mine.mjs")} ${own}`);
    const loader = createInterceptorLoader();
    expect(await loader.load(configOf("mine.mjs"))).toMatchObject({ ok: true, isFresh: true });
    expect(loader.hasChanged()).toBe(true);
  });

  it("are not loaded again as long as none of them changes", async () => {
    writeFileSync(join(folder, "mine.mjs"), "export default () => ({ type: 'continue' });");
    const loader = createInterceptorLoader();
    await loader.load(configOf("mine.mjs"));
    expect(loader.hasChanged()).toBe(false);
    expect(await loader.load(configOf("mine.mjs"))).toMatchObject({ ok: true, isFresh: false });
  });
});
