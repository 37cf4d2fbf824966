import { describe, expect, it } from "vitest";
import type { HttpPolicyEngine } from "../policy/sideband/contract.ts";
import { createInstanceFactory, type InstanceConfig } from "./plugin-definition.ts";
import { createKongPhaseLog } from "./phases.ts";
import { createFixedSecret } from "./engine-pool.ts";

const engine: HttpPolicyEngine = {
  hasResponsePhase: true,
  evaluateRequest: () => Promise.reject(new Error("not asked here")),
  evaluateResponse: () => Promise.reject(new Error("not asked here")),
  close: () => {},
};

function start(accessOnly: boolean) {
  const leased: InstanceConfig[] = [];
  const warnings: string[] = [];
  let released = 0;
  const create = createInstanceFactory({
    accessOnly,
    engines: {
      lease: (config) => {
        leased.push(config);
        return { engine, secret: createFixedSecret("s"), release: () => (released += 1) };
      },
      counts: () => ({ engines: 0, breakers: 0 }),
    },
    phaseLog: createKongPhaseLog(() => {}),
    log: { warn: (message) => warnings.push(message), error: () => {} },
  });
  const make = (changes: object = {}) =>
    create({
      name: "idpartners-ping-authorize",
      config: JSON.stringify({
        service_url: "https://paz.example.com",
        shared_secret: "s",
        secret_header_name: "CLIENT-TOKEN",
        ...changes,
      }),
    });
  return { make, leased, warnings, released: () => released };
}

describe("an instance", () => {
  it("[PA-004] has both phases, and releases its engine", () => {
    const { make, warnings, released } = start(false);
    const instance = make();
    expect(["access", "response", "log"].map((name) => instance.phase(name) !== undefined)).toEqual([
      true,
      true,
      false,
    ]);
    instance.close();
    expect([released(), warnings]).toEqual([1, []]);
  });

  it("[PX-08] has only the access phase with --access-only, stores nothing, and warns that responses are not checked", () => {
    const { make, leased, warnings } = start(true);
    expect(make().phase("response")).toBeUndefined();
    expect(leased[0]?.settings.skip_response_phase).toBe(true);
    expect(warnings).toEqual([expect.stringContaining("--access-only")]);
    make({ skip_response_phase: true });
    expect(warnings).toHaveLength(1);
  });

  it("[PX-02] warns at its start when all attempts together may take longer than Kong waits", () => {
    const { make, warnings } = start(false);
    make({ max_retries: 3, connection_timeout_ms: 10_000, retry_backoff_ms: 1666 });
    expect(warnings).toEqual([]);
    make({ max_retries: 3, connection_timeout_ms: 10_000, retry_backoff_ms: 1667 });
    expect(warnings).toEqual([expect.stringContaining("longer than Kong waits")]);
  });

  it("[PA-201] is not made from an invalid configuration", () => {
    const { make, leased } = start(false);
    expect(() => make({ service_url: "https://paz.example.com/sideband" })).toThrow("service_url");
    expect(leased).toEqual([]);
  });
});
