import { existsSync, globSync, statSync } from "node:fs";
import { join, resolve } from "node:path";

import { runTool } from "../../scripts/run/tool.ts";
import type { ConfigInput } from "../../src/config/schema.ts";
import type { GatewayOptions } from "../../src/gateway/gateway.ts";
import { createTicket } from "../../src/gateway/admin/sign-in/ticket.ts";
import { openAdmin } from "./admin.ts";

const root = resolve(import.meta.dirname, "../..");

/** Builds the console if its sources are newer than what was built. */
export async function buildConsole(): Promise<void> {
  const built = join(root, "dist/console/index.html");
  const sources = globSync("console/{index.html,vite.config.ts,src/**/*,public/*}", { cwd: root });
  const newest = Math.max(...sources.map((file) => statSync(join(root, file)).mtimeMs));
  if (existsSync(built) && statSync(built).mtimeMs > newest) return;
  const { exitCode, output } = await runTool(["node", "scripts/build-console.mjs"], { cwd: root });
  if (exitCode !== 0) throw new Error(output);
}

/** A gateway with a console: opened by `signInUrl`, which works once. */
export async function openConsole(input: Partial<ConfigInput> = {}, options: GatewayOptions = {}) {
  await buildConsole();
  const admin = await openAdmin(input, options);
  const consoleUrl = `${admin.adminUrl ?? ""}/console/`;
  return Object.assign(admin, {
    consoleUrl,
    signInUrl: () => `${consoleUrl}#/login/${createTicket(admin.token, Date.now())}`,
  });
}
