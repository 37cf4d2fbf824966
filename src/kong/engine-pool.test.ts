import { describe, expect, it } from "vitest";
import { createFakeTime } from "../../test/support/fake-time.ts";
import type { SidebandEngineDeps, HttpPolicyEngine } from "../policy/sideband/contract.ts";
import { createEnginePool } from "./engine-pool.ts";
import { parseInstanceConfig } from "./plugin-definition.ts";

function start() {
  const time = createFakeTime();
  const made: SidebandEngineDeps[] = [];
  const logged: string[] = [];
  let closed = 0;
  const pool = createEnginePool({
    createEngine: (settings, surroundings): HttpPolicyEngine => {
      made.push(surroundings);
      return {
        hasResponsePhase: !settings.skip_response_phase,
        evaluateRequest: () => Promise.reject(new Error("not asked here")),
        evaluateResponse: () => Promise.reject(new Error("not asked here")),
        close: () => {
          closed += 1;
        },
      };
    },
    engineDeps: {
      clock: time.clock,
      setTimer: time.setTimer,
      log: ({ level }) => logged.push(level),
    },
  });
  return { pool, made, logged, closed: () => closed };
}

const config = (changes: object = {}) =>
  parseInstanceConfig(
    JSON.stringify({
      service_url: "https://paz.example.com",
      shared_secret: "secret",
      secret_header_name: "CLIENT-TOKEN",
      __plugin_id: "one",
      ...changes,
    }),
  );

describe("the engines of all instances", () => {
  it("[PA-105] are shared by the instances of all workers", () => {
    const { pool, made, closed } = start();
    const [first, second] = [pool.lease(config({ __seq__: 1 })), pool.lease(config({ __seq__: 2 }))];
    expect(first.engine).toBe(second.engine);
    expect(made).toHaveLength(1);
    first.release();
    first.release();
    expect([closed(), pool.counts()]).toEqual([0, { engines: 1, breakers: 1 }]);
    second.release();
    expect([closed(), pool.counts()]).toEqual([1, { engines: 0, breakers: 0 }]);
  });

  it("[PA-105] share a breaker while unrelated settings change", () => {
    const { pool, made } = start();
    pool.lease(config());
    pool.lease(config({ enable_mcp: true }));
    expect(made).toHaveLength(2);
    expect(made[0]?.breaker).toBe(made[1]?.breaker);
  });

  it("[PA-105] have separate breakers where plugin or decision point differ", () => {
    const { pool, made } = start();
    pool.lease(config());
    pool.lease(config({ __plugin_id: "two" }));
    pool.lease(config({ service_url: "https://other.example.com" }));
    expect(new Set(made.map(({ breaker }) => breaker)).size).toBe(3);
  });

  it("identify a vault secret by its reference", () => {
    const { pool, made } = start();
    const $refs = { shared_secret: "{vault://env/paz}" };
    pool.lease(config({ $refs, shared_secret: "old" }));
    pool.lease(config({ $refs, shared_secret: "new" }));
    expect(made.map(({ secret }) => secret?.())).toEqual(["old"]);
  });

  it("write debug lines only where the setting asks for them", () => {
    const { pool, made, logged } = start();
    const entry = { plugin: "p", phase: "access", service_url: "u", msg: "m" } as const;
    pool.lease(config());
    pool.lease(config({ enable_debug_logging: true }));
    for (const { log } of made) {
      log({ ...entry, level: "debug" });
      log({ ...entry, level: "warn" });
    }
    expect(logged).toEqual(["warn", "debug", "warn"]);
  });
});
