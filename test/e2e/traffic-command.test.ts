import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { runTool } from "../../scripts/run/tool.ts";
import type { ExchangeRecord, Frame } from "../../src/recorder/contract.ts";
import type { CaptureLine } from "../../src/recorder/store/store-contract.ts";
import { openSqliteStore } from "../../src/recorder/store/sqlite.ts";
import { bin, headgate, temporaryFolder } from "../support/capture-file.ts";
import { captureOf, captureStart, type ToldCall } from "../support/capture.ts";
import { startGateway } from "../support/gateway.ts";
import { headgate as headgateIn, testFolder } from "../support/headgate-command.ts";
import { startProcess } from "../support/process.ts";

const calls: readonly ToldCall[] = [
  { method: "tools/list", result: { tools: [{ name: "add", inputSchema: { type: "object" } }] } },
  {
    method: "tools/call",
    params: { name: "add", arguments: { a: 1, b: 2 }, _meta: { progressToken: 1 } },
    result: { content: [{ type: "text", text: "three" }] },
    before: [{ method: "notifications/progress", params: { progressToken: 1, progress: 0.5 } }],
    decision: { effect: "allow", rule: "sums" },
    ms: 2500,
  },
  {
    method: "tools/call",
    params: { name: "delete_file", arguments: { path: "/etc/passwd" } },
    upstream: null,
    error: { code: 4030, message: "no", data: { origin: "gateway", code: "policy_denied" } },
    decision: { effect: "deny", rule: "no-deletes", reason: "Files stay.", read: ["mcp.tool"] },
    context: { principal: "ann" },
  },
];

function jsonLines(output: string): readonly ExchangeRecord[] {
  return output
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line) as ExchangeRecord);
}

describe("headgate traffic", () => {
  it("lists what was recorded, the newest first, by filter", async () => {
    using folder = temporaryFolder();
    const store = folder.capture("a.ndjson", captureOf(calls));
    const all = await headgate("traffic", "-s", store);
    expect(all.exitCode).toBe(0);
    expect(all.output.split("\n").filter((line) => line.includes("→"))).toEqual([
      expect.stringMatching(/ann .*tools\/call delete_file .*refused .*deny no-deletes/u),
      expect.stringMatching(/tools\/call add .*ok .*2\.50 s allow/u),
      expect.stringMatching(/tools\/list .*ok/u),
    ]);
    // Nobody looks at a terminal here, so nothing is painted.
    expect(all.output).not.toContain("\u001B");
    const ids = async (...filter: readonly string[]) =>
      jsonLines((await headgate("traffic", ...filter, "--json", "-s", store)).output).map(({ id }) => id);
    expect(await ids("denied")).toEqual(["capture-1-x3"]);
    expect(await ids("dur:>1s", "principal:anonymous")).toEqual(["capture-1-x2"]);
    expect(await ids("three", "|", "passwd")).toEqual(["capture-1-x3", "capture-1-x2"]);
    expect(await ids("!error", "dir:s2c")).toEqual(["capture-1-x2-1"]);
    const told = await headgate("traffic", "conversation", "method:tools/call", "-s", store);
    expect(told.output).toMatch(
      /Used the tool add {2}ok, .*\n {2}a: 1\n {2}b: 2\n {2}→ three\n\n.*Used the tool delete_file/su,
    );
    // A word that nobody said may be a verb misspelt.
    expect((await headgate("traffic", "shwo", "x", "-s", store)).output).toContain(
      "did you mean headgate traffic show?",
    );
  });

  it("ends quietly when its reader has seen enough", async () => {
    using folder = temporaryFolder();
    const many = Array.from({ length: 2000 }, () => calls[0] as ToldCall);
    const store = folder.capture("a.ndjson", captureOf(many));
    const line = `'${process.execPath}' '${bin}' traffic export - -s '${store}' | head -n 1 | cut -c 1-17`;
    const { exitCode, output } = await runTool(["sh", "-c", line], { cwd: import.meta.dirname });
    expect([exitCode, output]).toEqual([0, '{"type":"capture"']);
  });

  it("says what is wrong with a filter, and where", async () => {
    using folder = temporaryFolder();
    const store = folder.capture("a.ndjson", captureOf(calls));
    const { exitCode, output } = await headgate("traffic", "tool:add", "dur:slow", "-s", store);
    expect(exitCode).toBe(2);
    expect(output).toContain("`dur` needs a number, for example dur:>500ms\n  tool:add dur:slow\n           ^");
  });

  it("tells one exchange as a conversation", async () => {
    using folder = temporaryFolder();
    const store = folder.capture("a.ndjson", captureOf(calls));
    const { output } = await headgate("traffic", "show", "capture-1-x2", "-s", store);
    const places = [
      "client  → gateway",
      "sums",
      "gateway → server",
      "notifications/progress",
      '"three"',
      "client  ← gateway  result",
    ];
    const found = places.map((text) => output.indexOf(text));
    expect(found).toEqual(found.toSorted((a, b) => a - b));
    expect(found).not.toContain(-1);
    const refused = await headgate("traffic", "show", "capture-1-x3", "-s", store);
    expect(refused.output).toContain("deny, rule no-deletes, “Files stay.”, read mcp.tool");
    expect((await headgate("traffic", "show", "nothing", "-s", store)).exitCode).toBe(1);
  });

  it("takes captures into a store, and out again as they were", async () => {
    using folder = temporaryFolder();
    const file = folder.capture("a.ndjson", captureOf(calls));
    const store = folder.at("store.sqlite");
    const imported = await headgate("traffic", "import", file, "-s", store);
    expect(imported).toMatchObject({ exitCode: 0 });
    const again = folder.at("b.ndjson.gz");
    expect(await headgate("traffic", "export", again, "-s", store)).toMatchObject({ exitCode: 0 });
    const framesOf = async (place: string): Promise<readonly Frame[]> => {
      const { output } = await headgate("traffic", "export", "-", "-s", place);
      const lines = output.split("\n").filter((line) => line.startsWith("{"));
      return lines
        .map((line) => JSON.parse(line) as CaptureLine)
        .flatMap((line) => (line.type === "frame" ? [line] : []));
    };
    expect(await framesOf(again)).toEqual(await framesOf(file));
    const known = await headgate("traffic", "import", file, "-s", store, "--json");
    expect(JSON.parse(known.output)).toMatchObject({ known: captureOf(calls).length - 2 });
  });

  it("takes what is there of a file that was cut off, and says so", async () => {
    using folder = temporaryFolder();
    const whole = captureOf(calls)
      .map((line) => JSON.stringify(line))
      .join("\n");
    const file = folder.write("cut.ndjson", whole.slice(0, -200));
    const { exitCode, output } = await headgate("traffic", "-s", file);
    expect(exitCode).toBe(0);
    expect(output).toContain("was cut off");
    expect(output).toContain("tools/list");
  });

  it("refuses what is no recording, or is of a later version", async () => {
    using folder = temporaryFolder();
    const [first] = captureOf([]);
    const cases = [
      [folder.write("text.txt", "hello\n"), "is not JSON"],
      [folder.write("other.json", '{"log":{}}\n'), "is not a line of a capture file"],
      [folder.write("later.ndjson", `${JSON.stringify({ ...first, format: 99 })}\n`), "this version reads format 2"],
      [folder.at("nothing.sqlite"), "does not exist"],
    ] as const;
    for (const [file, problem] of cases) {
      const { exitCode, output } = await headgate("traffic", "-s", file);
      expect(output).toContain(problem);
      expect(exitCode).toBe(2);
    }
  });

  it("writes no capture under the name of another format", async () => {
    using folder = temporaryFolder();
    const store = folder.capture("a.ndjson", captureOf(calls));
    for (const name of ["a.zip", "a.sqlite", "a.CSV"]) {
      const { exitCode, output } = await headgate("traffic", "export", folder.at(name), "-s", store);
      expect([exitCode, output]).toEqual([2, expect.stringContaining("expected .ndjson, .ndjson.gz or .har")]);
    }
  });

  it("writes HAR files for browsers", async () => {
    using folder = temporaryFolder();
    const store = folder.capture("a.ndjson", captureOf(calls));
    const file = folder.at("a.har");
    expect(await headgate("traffic", "export", file, "kind:request", "-s", store)).toMatchObject({
      exitCode: 0,
    });
    const { log } = JSON.parse(readFileSync(file, "utf8")) as {
      readonly log: { readonly version: string; readonly entries: readonly Record<string, unknown>[] };
    };
    expect(log.version).toBe("1.2");
    expect(log.entries).toHaveLength(3);
    expect(log.entries[2]).toMatchObject({
      startedDateTime: expect.stringMatching(/^2026-11-15T12:00:0/u) as unknown,
      request: { method: "POST", postData: { text: expect.stringContaining("passwd") as unknown } },
      response: { content: { text: expect.stringContaining("4030") as unknown } },
      _mcp: { exchange: "capture-1-x3", decision: "deny", rule: "no-deletes", principal: "ann" },
    });
  });

  it("writes the URL into HAR files that the client called", async () => {
    using folder = temporaryFolder();
    const store = folder.at("traffic.sqlite");
    const config = folder.write("c.yaml", `upstream: { demo: true }\nadmin: false\nrecord: { file: ${store} }\n`);
    let url = "";
    {
      await using gateway = await startGateway(["run", "--port", "0", "--config", config]);
      ({ url } = gateway);
      expect(await headgate("call", "add", "a=2", "b=40", "--url", url)).toMatchObject({ exitCode: 0 });
    }
    const file = folder.at("a.har");
    expect(await headgate("traffic", "export", file, "tool:add", "--store", store)).toMatchObject({ exitCode: 0 });
    expect(JSON.parse(readFileSync(file, "utf8"))).toMatchObject({ log: { entries: [{ request: { url } }] } });
  });

  it("shows what the configuration of this folder records, as run writes it", async () => {
    using folder = testFolder();
    folder.write("headgate.yaml", "upstream: { demo: true }\nadmin: false\nrecord: { file: own.sqlite }\n");
    {
      await using gateway = await startGateway(["run", "--port", "0"], { cwd: folder.path });
      expect(await headgate("call", "add", "a=2", "b=40", "--url", gateway.url)).toMatchObject({ exitCode: 0 });
    }
    const here = await headgateIn(["traffic", "tool:add"], { cwd: folder.path });
    expect(here.stdout).toMatch(/tools\/call add +ok/u);
    expect(here.stderr).toContain("headgate: using headgate.yaml of this folder");
    // A configuration that cannot be read here, and one that names no file, leave the default.
    for (const text of ["upstream: { url: '${env:NO_SUCH_VARIABLE}' }", "upstream: { demo: true }\nrecord: true"]) {
      folder.write("headgate.yaml", text);
      const env = { XDG_DATA_HOME: folder.path };
      const other = await headgateIn(["traffic", "tool:add"], { cwd: folder.path, env });
      expect(other.stderr).toContain("recordings.sqlite");
      expect(other.stdout).not.toContain("add");
    }
  });

  it("shows counts and percentiles", async () => {
    using folder = temporaryFolder();
    const store = folder.capture("a.ndjson", captureOf(calls));
    const { output } = await headgate("traffic", "stats", "-s", store);
    expect(output).toMatch(/tools\/call add +1 +0 +0 +2\.50 s/u);
    expect(output).toMatch(/tools\/call delete_file +1 +0 +1/u);
    const { output: json } = await headgate("traffic", "stats", "tool:add", "--json", "-s", store);
    expect(JSON.parse(json)).toMatchObject({ exchanges: 1, rows: [{ target: "add", p50Ms: 2500 }] });
  });

  it("takes out what is old, and nothing else", async () => {
    using folder = temporaryFolder();
    const store = folder.at("store.sqlite");
    const old = captureOf([{ ...(calls[0] as ToldCall), at: captureStart }]);
    await headgate("traffic", "import", folder.capture("a.ndjson", old), "-s", store);
    const young = captureOf([{ ...(calls[0] as ToldCall), at: Date.now() }], "capture-2");
    await headgate("traffic", "import", folder.capture("b.ndjson", young), "-s", store);
    expect(await headgate("traffic", "prune", "-s", store)).toMatchObject({ exitCode: 2 });
    const between = new Date(Math.min(Date.now(), captureStart) + 1).toISOString();
    const older = Date.now() < captureStart ? "capture-1" : "capture-2";
    await headgate("traffic", "prune", "--before", between, "-s", store);
    const { output } = await headgate("traffic", "--json", "-s", store);
    expect(jsonLines(output).map(({ capture }) => capture)).toEqual([older]);
  });

  it("follows what a gateway writes, until it is told to stop", async () => {
    using folder = temporaryFolder();
    const file = folder.at("store.sqlite");
    await using store = await openSqliteStore({ file }, { wait: async () => {} });
    await using following = await startProcess([
      process.execPath,
      bin,
      "traffic",
      "follow",
      "tool:add",
      "--json",
      "-s",
      file,
    ]);
    const frames = captureOf(calls).flatMap((line) => (line.type === "frame" ? [line] : []));
    const [head] = captureOf(calls);
    if (head?.type !== "capture") throw new Error("a capture begins with its own line");
    // It follows from the moment at which it has looked; until then nothing new is written twice.
    const shown = following.waitForLine(/"target":"add".*"state":"ok"/u);
    let count = 0;
    const stop = setInterval(() => {
      const id = `capture-${++count}`;
      const { type: _type, ...record } = head;
      void store.append({
        capture: { ...record, id },
        frames: frames.map(({ type: _frame, ...frame }) => ({ ...frame, capture: id })),
      });
    }, 50);
    try {
      await shown;
    } finally {
      clearInterval(stop);
    }
    expect(following.output()).not.toContain("delete_file");
    expect(await following.stop()).toMatchObject({ code: 0 });
  });
});
