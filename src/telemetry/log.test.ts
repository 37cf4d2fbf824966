import { spawnSync } from "node:child_process";

import { describe, expect, it } from "vitest";

import { createLogger, type LogOptions } from "./log.ts";

const wall = () => Date.UTC(2026, 10, 15, 12, 3, 4, 5);

function collect(options: Partial<LogOptions> = {}) {
  const lines: string[] = [];
  const log = createLogger({
    level: "info",
    pretty: false,
    destination: { write: (line) => lines.push(line) },
    wall,
    ...options,
  });
  return { log, lines };
}

describe("the log", () => {
  it("is one flat JSON object a line, with the name of its level", () => {
    const { log, lines } = collect();
    log.info({ route: "files", status: 200, cached: false, session: undefined }, "exchange");
    expect(lines).toEqual([
      '{"level":"info","time":"2026-11-15T12:03:04.005Z","route":"files","status":200,"cached":false,"msg":"exchange"}\n',
    ]);
  });

  it("takes up another level", () => {
    const { log, lines } = collect();
    log.setLevel("error");
    log.info({}, "left out");
    log.setLevel("debug");
    log.debug({}, "written");
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain("written");
  });

  it("leaves out what is below its level, and says so beforehand", () => {
    const { log, lines } = collect({ level: "warn" });
    log.info({}, "not this");
    log.warn({}, "this");
    expect(lines).toHaveLength(1);
    expect(log.isLevelEnabled("info")).toBe(false);
    expect(log.isLevelEnabled("error")).toBe(true);
  });

  it("writes nothing when it is silent", () => {
    const { log, lines } = collect({ level: "silent" });
    log.fatal({}, "nothing");
    expect(lines).toEqual([]);
  });

  it("puts the fields of a child on all its lines", () => {
    const { log, lines } = collect();
    log.child({ route: "files" }).error({ code: "internal" }, "failed");
    expect(JSON.parse(lines[0] ?? "")).toMatchObject({ level: "error", route: "files", code: "internal" });
  });

  it("writes lines that somebody else put together, in both formats, and cleans texts for them", () => {
    const redact = (line: string): string => line.replaceAll("hunter2", "(secret)");
    const { log, lines } = collect({ redact });
    log.preformatted?.info(
      `,"status":200,"target":${JSON.stringify(log.preformatted.redact('a "hunter2"'))},"msg":"exchange"`,
    );
    expect(lines).toEqual([
      '{"level":"info","time":"2026-11-15T12:03:04.005Z","status":200,"target":"a \\"(secret)\\"","msg":"exchange"}\n',
    ]);
    const forPeople = collect({ pretty: true });
    forPeople.log.preformatted?.info(',"status":200,"msg":"exchange"');
    expect(forPeople.lines[0]).toMatch(/info {2}exchange status=200\n$/u);
    expect(forPeople.log.preformatted?.redact("as it is")).toBe("as it is");
    expect(log.child({ route: "files" })).toHaveProperty("preformatted", undefined);
  });

  it("takes secrets out of a line before it is written, in both formats", () => {
    for (const pretty of [false, true]) {
      const { log, lines } = collect({ pretty, redact: (line) => line.replaceAll("hunter2", "(secret)") });
      log.warn({ detail: "said hunter2" }, "hunter2");
      expect(lines.join("")).not.toContain("hunter2");
      expect(lines.join("")).toContain("(secret)");
    }
  });

  it("is for people on demand", () => {
    const { log, lines } = collect({ pretty: true });
    log.info({ route: "files" }, "exchange");
    expect(lines[0]).toMatch(/^\d\d:03:04\.005 info {2}exchange route=files\n$/u);
  });

  it("goes to standard error unless said otherwise, complete even if the process ends at once", () => {
    const module = new URL("log.ts", import.meta.url).href;
    const script = `const { createLogger } = await import(${JSON.stringify(module)});
      const log = createLogger({ level: "info", pretty: process.argv[1] === "pretty" });
      for (let i = 0; i < 100; i++) log.info({ i }, "line");
      log.flush();
      process.exit(0);`;
    for (const format of ["json", "pretty"]) {
      const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", script, format], {
        encoding: "utf8",
      });
      expect(stdout).toBe("");
      expect(stderr.trimEnd().split("\n")).toHaveLength(100);
    }
  });
});
