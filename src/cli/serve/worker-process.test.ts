import { describe, expect, it } from "vitest";

import type { Config } from "../../config/config.ts";
import { parseConfig } from "../../config/load.ts";
import { workerConfig } from "./worker-process.ts";

const place = { worker: 2, workers: 4, address: "http://127.0.0.1:8484", secret: "s" };

function parsed(input: Parameters<typeof parseConfig>[0]): Config {
  const result = parseConfig(input);
  if (!result.ok) throw new Error(JSON.stringify(result.problems));
  return result.config;
}

describe("the configuration of a worker", () => {
  it("has its part of everything that may run at once, and at least one of each", () => {
    const url = "http://127.0.0.1:9/mcp";
    const config = parsed({
      workers: 4,
      limits: { requests: 100, requestsPerPrincipal: 7, pending: 40, pendingPerPrincipal: 8 },
      routes: {
        one: { upstream: { url, connections: 3 } },
        several: { upstreams: { a: { url, connections: 8 }, b: { command: "b", maxChildren: 8 } } },
      },
    });
    const { limits, routes } = workerConfig(config, place);
    expect(limits).toMatchObject({
      requests: 25,
      requestsPerPrincipal: 1,
      pending: 10,
      pendingPerPrincipal: 2,
      bodyBytes: config.limits.bodyBytes,
    });
    expect(routes["one"]?.upstream).toMatchObject({ connections: 1 });
    expect(routes["several"]?.upstream).toMatchObject({
      members: [
        { name: "a", upstream: { connections: 2 } },
        { name: "b", upstream: { maxChildren: 8 } },
      ],
    });
  });

  it("is divided by the workers that run, whatever a reloaded file says until the next start", () => {
    const limits = { requests: 100 };
    for (const workers of [1, 2, 16]) {
      const config = parsed({ workers, limits, upstream: { demo: true } });
      expect(workerConfig(config, place).limits.requests).toBe(25);
    }
  });
});
