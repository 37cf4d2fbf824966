// Signals to a program that calls startServerKit and does nothing about signals itself.
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

import { expect, it } from "vitest";

import { openKitStream } from "../support/kit-stream.ts";
import { startProcess } from "../support/process.ts";

const kitFile = resolve(import.meta.dirname, "../fixtures/server-kit/slow-tool.ts");
const call = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "slow", arguments: {} } };

async function startKit() {
  const file = join(await mkdtemp(join(tmpdir(), "headgate-")), "go");
  const running = await startProcess([process.execPath, kitFile, file]);
  const [, origin = ""] = await running.waitForLine(/Address: (http:\S+)/u);
  const client = await openKitStream(`${origin}/mcp`);
  await client.post(call);
  await running.waitForLine(/^running$/u);
  return { running, client, finish: async () => writeFile(file, "") };
}

it.each(["SIGTERM", "SIGINT"] as const)("[KO-080] lets the call finish and ends the streams on %s", async (signal) => {
  const { running, client, finish } = await startKit();
  await using _ = running;
  process.kill(running.pid, signal);
  await finish();
  expect(JSON.parse((await client.until("result")).data)).toMatchObject({ result: { content: [{ text: "done" }] } });
  expect((await client.until("end")).event).toBe("end");
  expect(await running.exited).toEqual({ code: 0, signal: null });
});

it("ends at once on a second signal", async () => {
  const { running } = await startKit();
  await using _ = running;
  process.kill(running.pid, "SIGTERM");
  await expect
    .poll(() => {
      try {
        process.kill(running.pid, "SIGTERM");
        return "running";
      } catch {
        return "gone";
      }
    })
    .toBe("gone");
  expect(await running.exited).toEqual({ code: null, signal: "SIGTERM" });
});
