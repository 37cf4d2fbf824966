import { existsSync, globSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { runTool } from "../../scripts/run/tool.ts";
import type { ConfigInput } from "../../src/config/schema.ts";
import type { GatewayOptions } from "../../src/gateway/gateway.ts";
import { createTicket } from "../../src/gateway/admin/sign-in/ticket.ts";
import type { ExchangeRecord } from "../../src/recorder/contract.ts";
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

const policy = {
  rules: [
    { id: "no-failures", deny: 'mcp.tool == "fail"', reason: "Tools that fail are not for agents." },
    { id: "small-sums", allow: 'mcp.tool == "add" && mcp.arguments.a < 1000.0' },
    { id: "everything-else", allow: "true" },
  ],
};

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

/** The same after a client has used the demo server, with every view and a text that shows it is ready. */
export async function openConsoleTraffic() {
  const opened = await openConsole({ policy });
  await using client = await opened.connect();
  await client.sdk.listTools();
  for (let number = 0; number < 24; number++)
    await client.sdk.callTool({ name: "add", arguments: { a: number, b: 40 } });
  await client.sdk.callTool({ name: "fail", arguments: {} }).catch(() => {});
  await client.sdk.callTool({ name: "count_slowly", arguments: { to: 3, delay_ms: 40 } }).catch(() => {});
  await client.sdk.readResource({ uri: "harbor://berths" });
  await client.sdk.callTool({ name: "add", arguments: { a: 2, b: 40 } });
  const last = await lastCall(opened);
  const session = encodeURIComponent(`session:"${last.session ?? ""}"`);
  return Object.assign(opened, {
    last,
    places: [
      { view: "live", path: "live", ready: "count_slowly" },
      { view: "exchange", path: `exchange/${encodeURIComponent(last.id)}`, ready: "Rules for the request" },
      { view: "sessions", path: "sessions", ready: "Last seen" },
      { view: "session", path: `sessions/${session}`, ready: "Notifications" },
      { view: "figures", path: "figures", ready: "What is used most" },
      { view: "playground", path: "playground", ready: "book_berth" },
      { view: "policy", path: "policy", ready: "Run over" },
      { view: "drift", path: "drift", ready: "No definitions are approved" },
      { view: "held", path: "held", ready: "Nothing is held" },
    ],
  });
}

async function lastCall(opened: Awaited<ReturnType<typeof openConsole>>): Promise<ExchangeRecord> {
  for (;;) {
    const { json } = await opened.ask("/exchanges?filter=tool:add&limit=1");
    const [last] = (json as { exchanges: readonly ExchangeRecord[] }).exchanges;
    if (last?.state === "ok") return last;
    await sleep(50);
  }
}
