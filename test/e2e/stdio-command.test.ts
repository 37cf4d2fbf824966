import { spawn } from "node:child_process";
import { once } from "node:events";
import { join, resolve } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, it } from "vitest";
import { fakeUpstream } from "../support/fake-upstream.ts";
import { stdioFixture } from "../support/fixture.ts";

const root = resolve(import.meta.dirname, "../..");
const initialize = JSON.stringify({
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1" } },
});

/** Runs `headgate stdio` with some lines as its whole input. */
async function pipe(args: readonly string[], lines: readonly string[]) {
  const child = spawn(process.execPath, [join(root, "bin/headgate.mjs"), "stdio", "--log-level", "silent", ...args], {
    stdio: ["pipe", "pipe", "pipe"],
  });
  const output = text(child.stdout);
  child.stdin.end(lines.map((line) => `${line}\n`).join(""));
  const [code] = (await once(child, "exit")) as [number | null];
  const answers = (await output).split("\n").filter((line) => line !== "");
  return {
    code,
    answers: answers.map((line) => JSON.parse(line) as { id?: unknown; result?: unknown; error?: unknown }),
  };
}

describe("headgate stdio", () => {
  it("answers what was asked before its input ended, and leaves with 0", async () => {
    const { code, answers } = await pipe(["--", ...stdioFixture({ era: "legacy" })], [initialize]);
    expect(code).toBe(0);
    expect(answers).toHaveLength(1);
    expect(answers[0]).toMatchObject({ id: 1, result: { protocolVersion: "2025-11-25" } });
  });

  it("answers with an error when the upstream has nothing at that address", async () => {
    await using upstream = await fakeUpstream((call) => {
      call.replyRaw(404, { "content-type": "text/html" }, "<p>nothing here</p>");
    });
    const { code, answers } = await pipe(["--upstream", upstream.url], [initialize]);
    expect(code).toBe(0);
    expect(answers).toMatchObject([{ id: 1, error: { data: { origin: "gateway", code: "upstream_invalid" } } }]);
  });

  it("[SC-030, SC-086] answers a line that is no message, or a batch where there are none, with an error and goes on", async () => {
    const batch = '[{"jsonrpc":"2.0","id":5,"method":"ping"}]';
    const { answers } = await pipe(
      ["--", ...stdioFixture({ era: "legacy" })],
      [initialize, "this is not json", '{"jsonrpc":"2.0","id":6,"method":"ping"}'],
    );
    expect(answers.map(({ id }) => id)).toEqual(expect.arrayContaining([1, 6]));
    expect(answers.find(({ id }) => id === undefined)).toMatchObject({ error: { code: -32700 } });
    const refused = await pipe(["--", ...stdioFixture({ era: "modern" })], ["{}", batch.replace("[", "[[")]);
    expect(refused.answers).toMatchObject([{ error: { code: -32600 } }, { error: {} }]);
  });

  it("[SC-018, SC-086] answers a request that is too long by its id, wherever that stands, and goes on", async () => {
    const argument = "x".repeat(4 * 1024 * 1024);
    const call = { params: { name: "add", arguments: { argument } }, jsonrpc: "2.0" };
    const { answers } = await pipe(
      ["--", ...stdioFixture({ era: "legacy" })],
      [
        initialize,
        JSON.stringify({ id: "first", method: "tools/call", ...call }),
        JSON.stringify({ method: "tools/call", ...call, id: "last" }),
        '{"jsonrpc":"2.0","id":6,"method":"ping"}',
      ],
    );
    expect(answers.map(({ id }) => id)).toEqual(expect.arrayContaining([1, 6]));
    for (const id of ["first", "last"])
      expect(answers.find((answer) => answer.id === id)).toMatchObject({
        error: {
          message: expect.stringMatching(/it has 4194\d{3} bytes, and limits\.stdioLineBytes is 4194304$/u),
          data: { code: "too_large" },
        },
      });
  });
});
