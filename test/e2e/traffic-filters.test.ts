import fc from "fast-check";
import { describe, expect, it } from "vitest";

import type { RecordReader } from "../../src/recorder/store/store-contract.ts";
import { parseTrafficFilter } from "../../src/recorder/filter/parse.ts";
import { terms, keywords } from "../../src/recorder/filter/terms.ts";
import { createCaptureReader } from "../../src/recorder/store/capture-file.ts";
import { openSqliteStore } from "../../src/recorder/store/sqlite.ts";
import { temporaryFolder } from "../support/capture-file.ts";
import { captureOf, captureStart, type ToldCall } from "../support/capture.ts";

const calls: readonly ToldCall[] = Array.from({ length: 60 }, (_, index): ToldCall => {
  const name = ["add", "Delete_file", "pay"][index % 3] ?? "";
  const isDenied = index % 7 === 0;
  return {
    method: index % 5 === 0 ? "resources/read" : "tools/call",
    params: index % 5 === 0 ? { uri: `file:///etc/${name}` } : { name, arguments: { note: `invoice ${index}` } },
    context: { principal: ["ann", "bob"][index % 2] ?? "", route: index % 4 === 0 ? "files" : "harbor" },
    ms: index * 50,
    ...(isDenied
      ? {
          upstream: null,
          error: { code: 4030, message: "no", data: { origin: "gateway", code: "policy_denied" } },
          decision: { effect: "deny", rule: "no-deletes" },
        }
      : { result: { content: [{ type: "text", text: index % 2 === 0 ? "Timeout" : "done" }] } }),
  };
});

const examples = [...Object.values(terms).map(({ example }) => example), ...Object.keys(keywords)];
const term = fc.constantFrom(
  ...examples,
  "tool:add",
  "tool:delete_*",
  "tool:/^D.*e$/",
  "principal:ann",
  "route:files",
  "status:refused",
  "dur:<=500ms",
  "size:>60",
  "invoice",
  "time",
  "text:timeout",
  "answer:done",
  "uri:file:///etc/*",
  "code:4030",
  "gateway:policy_denied",
  "since:2026-11-15T12:00:05Z",
  "id:capture-1-x1",
);
const filter = fc.letrec<{ any: string; part: string }>((tie) => ({
  part: fc.oneof(
    { withCrossShrink: true },
    term,
    tie("any").map((inner) => `(${inner})`),
    term.map((one) => `!${one}`),
  ),
  any: fc
    .tuple(tie("part"), fc.constantFrom(" ", " | ", " & "), tie("part"))
    .map(([left, sign, right]) => `${left}${sign}${right}`),
})).any;

async function idsIn(reader: RecordReader, source: string): Promise<readonly string[]> {
  const reading = parseTrafficFilter(source, { now: captureStart });
  if (!reading.ok) throw new Error(`${source}: ${reading.problem.message}`);
  const { exchanges } = await reader.exchanges({ where: reading.condition, limit: 1000 });
  return exchanges.map(({ id }) => id);
}

describe("filters", () => {
  it("find the same in a store, with its indices, as in a file that is read from end to end", async () => {
    using folder = temporaryFolder();
    const lines = captureOf(calls);
    const options = { wall: () => captureStart, wait: async () => {} };
    await using store = await openSqliteStore({ file: folder.at("store.sqlite") }, options);
    await store.import(toAsync(lines));
    // Half of it is in the text index, the other half has to be read.
    await store.index(lines.length / 2);
    await using file = await createCaptureReader(lines, "file");
    expect((await idsIn(file, "")).length).toBe(calls.length);
    expect((await idsIn(file, "tool:delete_*")).length).toBeGreaterThan(5);
    await fc.assert(
      fc.asyncProperty(filter, async (source) => {
        expect(await idsIn(store, source)).toEqual(await idsIn(file, source));
      }),
      { numRuns: 200, seed: 9 },
    );
  });
});

async function* toAsync<Value>(values: readonly Value[]): AsyncIterable<Value> {
  yield* values;
}
