import { resolve } from "node:path";

import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    name: "claude",
    root: resolve(import.meta.dirname, "../.."),
    include: ["test/claude/**/*.test.ts"],
    // Each test starts a program of several hundred megabytes, on machines that may be busy.
    testTimeout: 180_000,
    hookTimeout: 180_000,
    fileParallelism: false,
  },
});
