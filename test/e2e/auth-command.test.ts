import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { describe, expect, it } from "vitest";

import { runTool } from "../../scripts/run/tool.ts";
import { startGateway } from "../support/gateway.ts";
import { handshake } from "../support/legacy-session.ts";
import { post } from "../support/raw-http.ts";
import { bearer } from "../support/tokens.ts";

const root = resolve(import.meta.dirname, "../..");
const bin = join(root, "bin/headgate.mjs");

async function headgate(...args: readonly string[]) {
  return runTool(["node", bin, ...args], { cwd: root });
}

describe("the command", () => {
  it("makes a key that opens a gateway which knows its hash only", async () => {
    const { output } = await headgate("key");
    const { made = "", hash = "" } = /key: {2}(?<made>hgk_\S+)\nhash: (?<hash>sha256:\S+)/u.exec(output)?.groups ?? {};
    const folder = mkdtempSync(join(tmpdir(), "headgate-key-"));
    try {
      const file = join(folder, "headgate.json");
      const auth = { authenticators: { robots: { apiKeys: { keys: { ci: { hash } } } } } };
      writeFileSync(file, JSON.stringify({ listen: { port: 0 }, admin: false, auth, upstream: { demo: true } }));
      await using gateway = await startGateway(["run", "--config", file]);
      expect((await post(gateway.url, handshake("2025-11-25"))).status).toBe(401);
      expect((await post(gateway.url, handshake("2025-11-25"), bearer(made))).status).toBe(200);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  it("does not listen beyond this machine for callers that nobody asks", async () => {
    const { exitCode, output } = await headgate("run", "--host", "0.0.0.0", "--port", "0");
    expect(exitCode).toBe(2);
    expect(output).toContain("unauthenticated callers are admitted");
    expect(output).toContain("listen.allowAnonymous: true");
  });
});
