import { resolve } from "node:path";

import { defineConfig } from "vite";

/** Builds the console into files that the gateway serves; nothing of this is needed when it runs. */
export default defineConfig({
  root: import.meta.dirname,
  // Relative addresses work under any path of a proxy.
  base: "./",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: resolve(import.meta.dirname, "../dist/console"),
    emptyOutDir: true,
    target: "es2023",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
  },
  logLevel: "warn",
});
