import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";

/** What a process has loaded of Node after it imported these modules. */
async function loadedAfter(...modules: string[]): Promise<readonly string[]> {
  const imports = modules.map((path) => `await import(${JSON.stringify(new URL(path, import.meta.url).href)});`);
  const script = `${imports.join(" ")} console.log(JSON.stringify(process.moduleLoadList));`;
  const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", script]);
  return JSON.parse(stdout) as string[];
}

describe("a gateway that starts", () => {
  it("loads no second undici, which an import of node:http would bring", async () => {
    const loaded = await loadedAfter("../gateway/gateway.ts", "../cli/serve/run.ts", "../cli/serve/worker-process.ts");
    expect(loaded).toContain("NativeModule http");
    expect(loaded).not.toContain("NativeModule internal/deps/undici/undici");
  });
});
