import { expect, it } from "vitest";

import { clusterConfig } from "./config.ts";

const cluster = { listen: { host: "10.0.0.5", port: 8486 }, secret: "x".repeat(32) };

it.each(["http://10.0.0.5:8486", "https://gateway-1.internal:8486"])("takes the address %s", (advertise) => {
  expect(clusterConfig.safeParse({ ...cluster, advertise }).success).toBe(true);
});

it.each(["ftp://10.0.0.5:8486", "10.0.0.5:8486", "http://10.0.0.5:8486/path", "http://"])(
  "refuses %s, which peers could not reach",
  (advertise) => {
    const parsed = clusterConfig.safeParse({ ...cluster, advertise });
    expect(parsed.error?.issues.map(({ path }) => path)).toEqual([["advertise"]]);
  },
);
