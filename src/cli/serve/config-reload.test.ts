import { describe, expect, it } from "vitest";
import { settled } from "../../../test/support/fake-time.ts";
import { type ConfigResult, parseConfig } from "../../config/load.ts";
import { createReloadableSecrets, createSecrets } from "../../config/secrets.ts";
import type { Config } from "../../config/config.ts";
import type { ReloadOutcome } from "../../gateway/gateway.ts";
import { createLogger } from "../../telemetry/log.ts";
import { createInterceptorLoader } from "../../gateway/wiring/interceptor-files.ts";
import { followConfig } from "./config-reload.ts";
import { createDigestingReader } from "./file-watcher.ts";

function configOf(level: "info" | "error" = "info"): Config {
  const result = parseConfig({ upstream: { demo: true }, log: { level } });
  if (!result.ok) throw new Error("the configuration is not good");
  return result.config;
}

/** A file that is followed, with everything around it in the test's hand. */
function follow(interceptors = createInterceptorLoader()) {
  const lines: string[] = [];
  const loads: PromiseWithResolvers<ConfigResult>[] = [];
  const reloads: Config[] = [];
  let outcome: ReloadOutcome = { ok: true, changed: ["limits.depth"], needsRestart: [] };
  let ask = (): void => {};
  const following = followConfig({
    file: "/nowhere/headgate.yaml",
    first: createDigestingReader(() => Promise.reject(new Error("there is no file"))),
    interceptors,
    keepServers: false,
    load: () => {
      const load = Promise.withResolvers<ConfigResult>();
      loads.push(load);
      return load.promise;
    },
    gateway: {
      reload: async (config) => {
        reloads.push(config);
        return outcome;
      },
    },
    log: createLogger({ level: "info", pretty: false, destination: { write: (line) => lines.push(line) } }),
    secrets: createReloadableSecrets(createSecrets([])),
    io: {
      readFile: () => Promise.reject(new Error("there is no file")),
      onReload: (callback) => {
        ask = callback;
        return () => {
          ask = () => {};
        };
      },
    },
  });
  return {
    following,
    loads,
    reloads,
    said: () => lines.map((line) => Reflect.get(Object(JSON.parse(line)), "msg") as unknown),
    lines,
    ask: () => {
      ask();
    },
    answer: (next: ReloadOutcome) => {
      outcome = next;
    },
  };
}

const good = (config = configOf()): ConfigResult => ({ ok: true, config, warnings: [] });

describe("a configuration that is followed", () => {
  it("is loaded again where an interceptor changed before it was watched", async () => {
    const answers = [true, false];
    const at = follow({ ...createInterceptorLoader(), hasChanged: () => answers.shift() === true });
    await settled();
    at.loads[0]?.resolve(good());
    await settled();
    expect(at.reloads).toHaveLength(1);
  });

  it("is loaded and handed over when the process is told to", async () => {
    const at = follow();
    at.ask();
    at.loads[0]?.resolve(good());
    await settled();
    expect(at.reloads).toHaveLength(1);
    expect(at.said()).toEqual(["configuration reloaded"]);
  });

  it("is loaded once more for all who asked while it was being loaded", async () => {
    const at = follow();
    for (let count = 0; count < 5; count++) at.ask();
    expect(at.loads).toHaveLength(1);
    at.loads[0]?.resolve(good());
    await settled();
    expect(at.loads).toHaveLength(2);
    at.loads[1]?.resolve(good());
    await settled();
    expect([at.loads.length, at.reloads.length]).toEqual([2, 2]);
  });

  it("is not handed over when it is not good, and every problem is told with its place", async () => {
    const at = follow();
    at.ask();
    const problems = [
      { path: "listen.port", message: "is too much", line: 2, column: 3 },
      { path: "routes", message: "has none", line: 7, column: 1 },
    ];
    at.loads[0]?.resolve({ ok: false, problems });
    await settled();
    expect(at.reloads).toEqual([]);
    expect(at.lines[0]).toContain("headgate.yaml:2:3");
    expect(at.lines[1]).toContain("headgate.yaml:7:1");
  });

  it("shows no secret of a configuration that the gateway refused", async () => {
    const at = follow();
    at.answer({ ok: false, problem: "cannot use hunter2-the-secret" });
    at.ask();
    at.loads[0]?.resolve(good({ ...configOf(), secrets: createSecrets(["hunter2-the-secret"]) }));
    await settled();
    expect(at.said()).toEqual(["invalid configuration; keeping the old one"]);
    expect(at.lines.join("")).not.toContain("hunter2");
  });

  it("tells apart what holds now and what needs a restart", async () => {
    const at = follow();
    at.answer({ ok: true, changed: ["limits.depth", "listen.port"], needsRestart: ["listen.port"] });
    at.ask();
    at.loads[0]?.resolve(good());
    await settled();
    expect(at.lines[0]).toContain('"changed":"limits.depth"');
    expect(at.lines[1]).toContain('"changed":"listen.port","msg":"changes need a restart"');
  });

  it("changes how much is logged", async () => {
    const at = follow();
    at.ask();
    at.loads[0]?.resolve(good(configOf("error")));
    await settled();
    expect(at.lines).toEqual([]);
  });

  it("is left alone once following is over, even in the middle of loading", async () => {
    const at = follow();
    at.ask();
    at.following[Symbol.dispose]();
    at.loads[0]?.resolve(good());
    await settled();
    at.ask();
    expect([at.loads.length, at.reloads.length]).toEqual([1, 0]);
  });
});
