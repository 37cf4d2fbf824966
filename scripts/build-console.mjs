// Builds the console into dist/console: after `npm install`, so that `npm start` has it, and for the package.
// Plain JavaScript, so that any Node can run it; without the dev dependencies there is nothing to build with.
import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";

const configFile = fileURLToPath(new URL("../console/vite.config.ts", import.meta.url));
if (existsSync(new URL("../node_modules/vite/package.json", import.meta.url))) {
  const { build } = await import("vite");
  await build({ configFile });
}
