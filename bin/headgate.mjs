#!/usr/bin/env node
// Kept in plain old JavaScript: this file must load on any Node to say clearly which one is needed.
import { existsSync } from "node:fs";

const needed = 24;
const major = Number(process.versions.node.split(".")[0]);
if (major < needed) {
  console.error(
    `headgate needs Node ${needed} or newer; this is Node ${process.versions.node}. Install a newer Node, or run it as "npm run -s headgate" in a checkout, which brings its own.`,
  );
  process.exit(1);
}
const built = new URL("../dist/cli/main.js", import.meta.url);
const source = new URL("../src/cli/main.ts", import.meta.url);
// A checkout runs its source; the published package has no src folder and runs what was built.
await import((existsSync(source) ? source : built).href);
