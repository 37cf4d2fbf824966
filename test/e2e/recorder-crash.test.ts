import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import type { ExchangeRecord, Frame } from "../../src/recorder/contract.ts";
import { deriveExchanges } from "../../src/recorder/derive.ts";
import { openSqliteStore } from "../../src/recorder/store/sqlite.ts";
import { startGateway } from "../support/gateway.ts";
import { post } from "../support/raw-http.ts";

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "headgate-crash-"));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

const callers = 8;

/** Calls until the gateway is gone; the answer is every number whose sum a caller has seen. */
async function callUntilGone(url: string, enough: (seen: number) => void): Promise<ReadonlySet<number>> {
  const seen = new Set<number>();
  let next = 0;
  async function caller(): Promise<void> {
    for (;;) {
      const a = next++;
      const params = { name: "add", arguments: { a, b: 0 }, _meta: envelope };
      const headers = { "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "add" };
      try {
        const { text } = await post(url, { jsonrpc: "2.0", id: a, method: "tools/call", params }, headers);
        if (text.includes(`"text":"${a} + 0 = ${a}"`)) seen.add(a);
        enough(seen.size);
      } catch {
        return;
      }
    }
  }
  await Promise.all(Array.from({ length: callers }, caller));
  return seen;
}

const envelope = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientCapabilities": {},
};

interface Remains {
  readonly frames: readonly Frame[];
  readonly exchanges: readonly ExchangeRecord[];
  /** The numbers of calls whose answer was recorded. */
  readonly answered: ReadonlySet<number>;
}

/** What a file holds after the fact, checked to be sound. */
async function remainsOf(file: string): Promise<Remains> {
  const raw = new DatabaseSync(file);
  expect(raw.prepare("PRAGMA integrity_check").all()).toEqual([{ integrity_check: "ok" }]);
  raw.close();
  await using store = await openSqliteStore({ file }, { wait: async () => {} });
  const frames: Frame[] = [];
  const exchanges: ExchangeRecord[] = [];
  for await (const { type, ...line } of store.export()) {
    if (type === "frame") frames.push(line as Frame);
    if (type === "exchange") exchanges.push(line as ExchangeRecord);
  }
  const done = new Set(exchanges.filter(({ state }) => state === "ok").map(({ rpcId }) => rpcId));
  const answered = new Set([...done].map((id) => Number(id?.slice(2))));
  return { frames, exchanges, answered };
}

async function killedUnderLoad(record: object, after: number): Promise<{ seen: ReadonlySet<number>; file: string }> {
  const file = join(folder, "traffic.sqlite");
  const config = join(folder, "headgate.json");
  const listen = { port: 0 };
  writeFileSync(
    config,
    JSON.stringify({
      upstream: { demo: true },
      listen,
      admin: false,
      log: { level: "warn" },
      record: { file, ...record },
    }),
  );
  await using gateway = await startGateway(["run", "--config", config]);
  const seen = await callUntilGone(gateway.url, (count) => {
    if (count >= after) process.kill(gateway.process.pid, "SIGKILL");
  });
  await gateway.process.exited;
  return { seen, file };
}

describe("a gateway that is killed under load", () => {
  it.each([40, 300])(
    "has recorded every answer that a client saw, where it records or refuses (%d calls)",
    async (after) => {
      const { seen, file } = await killedUnderLoad({ onFailure: "refuse" }, after);
      const { frames, exchanges, answered } = await remainsOf(file);
      expect(seen.size).toBeGreaterThanOrEqual(after);
      expect([...seen].filter((a) => !answered.has(a))).toEqual([]);
      expect(deriveExchanges(frames)).toEqual(exchanges);
    },
  );

  it("leaves a sound file with everything up to some moment, and nothing missing before that", async () => {
    const { seen, file } = await killedUnderLoad({}, 1500);
    const { frames, exchanges } = await remainsOf(file);
    expect(seen.size).toBeGreaterThanOrEqual(1500);
    expect(frames.length).toBeGreaterThan(0);
    expect(frames.map(({ seq }) => seq)).toEqual(frames.map((_, index) => index));
    expect(deriveExchanges(frames)).toEqual(exchanges);
  });
});
