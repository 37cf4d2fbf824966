import { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";

import { runCommand } from "../../../test/support/cli-io.ts";
import { createApiKeys, isApiKeyHash } from "../../auth/api-key.ts";
import { key } from "./key.ts";

function partsOf(out: string) {
  return /^(?:key: {2}(?<made>\S+)\n)?hash: (?<hash>\S+)\n$/u.exec(out)?.groups ?? {};
}

describe("headgate key", () => {
  it("makes another key every time, with a hash that lets it in", async () => {
    const first = await runCommand(key, []);
    const second = await runCommand(key, []);
    const { made = "", hash = "" } = partsOf(first.out);
    expect(first).toMatchObject({ exitCode: 0, err: expect.stringContaining("shown only once") as string });
    expect(partsOf(second.out)["made"]).not.toBe(made);
    expect(isApiKeyHash(hash)).toBe(true);
    const keys = createApiKeys({
      name: "robots",
      header: undefined,
      keys: { ci: { hash, scopes: [], labels: {} } },
      impliedScopes: {},
      wall: () => 0,
    });
    expect(keys.authenticate({ header: () => `Bearer ${made}` })).toMatchObject({ ok: true });
  });

  it("hashes a key that exists, with or without a line feed at its end", async () => {
    const given = "k".repeat(32);
    const hashes = await Promise.all(
      [given, `${given}\n`].map(async (text) => {
        let out = "";
        const exitCode = await key(["--stdin"], {
          out: (part) => (out += part),
          err: () => {},
          env: {},
          readFile: () => Promise.reject(new Error("nothing to read")),
          stdin: new PassThrough().end(text),
        });
        return [exitCode, partsOf(out)["hash"]];
      }),
    );
    expect(hashes[0]).toEqual(hashes[1]);
    expect(hashes[0]?.[0]).toBe(0);
  });

  it.each([
    { args: ["--stdin"], typed: ["short"], problem: "must be at least 32 visible" },
    { args: ["--stdin"], typed: [`${"k".repeat(40)} ä`], problem: "visible ASCII" },
    { args: ["name"], typed: [], problem: "takes no arguments" },
    { args: ["--no"], typed: [], problem: "unknown option --no" },
  ])("says what is wrong with $args and $typed", async ({ args, typed, problem }) => {
    const run = await runCommand(key, args, { typed });
    expect(run).toMatchObject({ exitCode: 2, out: "", err: expect.stringContaining(problem) as string });
  });
});
