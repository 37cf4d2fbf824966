import { tmpdir } from "node:os";
import { join } from "node:path";

import { defineConfig } from "vitest/config";

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
        },
      },
      {
        test: {
          name: "e2e",
          // Gateways that tests start keep their recordings here, and not in the user's own folder.
          // A folder of this run: recordings of an older format would not be taken.
          env: { XDG_DATA_HOME: join(tmpdir(), `headgate-e2e-${process.pid}`) },
          include: ["test/e2e/**/*.test.ts"],
          // Real processes start here, on machines that may be busy; a test that hangs is still found.
          testTimeout: 30_000,
          hookTimeout: 30_000,
        },
      },
    ],
  },
});
