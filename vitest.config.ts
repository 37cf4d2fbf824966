import { tmpdir } from "node:os";
import { join } from "node:path";

import { defineConfig } from "vitest/config";

// Time limits find tests that hang. They say nothing about speed, so that tests also pass on a busy machine; a test of its
// own accord sets only longer ones (test/house/time-limits.test.ts).
// The message of a failure has whole values: it may be all that is left of a run elsewhere.
const chaiConfig = { truncateThreshold: 1000 };
const unitLimits = { chaiConfig, testTimeout: 60_000, hookTimeout: 60_000, expect: { poll: { timeout: 30_000 } } };
const e2eLimits = { ...unitLimits, testTimeout: 120_000, hookTimeout: 120_000 };

export default defineConfig({
  test: {
    projects: [
      {
        test: {
          name: "unit",
          include: ["src/**/*.test.ts", "console/src/**/*.test.ts", "test/house/**/*.test.ts", "scripts/**/*.test.ts"],
          setupFiles: ["test/support/fixed-seed.ts"],
          // No module of ours keeps state, so files can share what they import; that halves the time.
          isolate: false,
          ...unitLimits,
        },
      },
      {
        test: {
          name: "e2e",
          // Gateways that tests start keep their recordings here, and not in the user's own folder.
          // A folder of this run: recordings of an older format would not be taken.
          env: { XDG_DATA_HOME: join(tmpdir(), `headgate-e2e-${process.pid}`) },
          include: ["test/e2e/**/*.test.ts"],
          setupFiles: ["test/support/fixed-seed.ts"],
          ...e2eLimits,
        },
      },
    ],
  },
});
