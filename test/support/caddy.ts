import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { freePort } from "./free-port.ts";
import { startProcess } from "./process.ts";

/** A running Caddy; leaving the scope that holds it ends it. */
export interface RunningCaddy extends AsyncDisposable {
  /** Where it listens, without a path. */
  readonly origin: string;
  readonly output: () => string;
}

/** Runs Caddy with a site, which `site` makes for a port of loopback. */
export async function startCaddy(site: (port: number) => string): Promise<RunningCaddy> {
  const port = await freePort();
  const home = mkdtempSync(join(tmpdir(), "headgate-caddy-"));
  const file = join(home, "Caddyfile");
  // Its own admin listener would have a fixed port.
  writeFileSync(file, `{\n\tadmin off\n}\n${site(port)}`);
  const env = { HOME: home, XDG_DATA_HOME: home, XDG_CONFIG_HOME: home };
  const running = await startProcess(["/usr/bin/caddy", "run", "--adapter", "caddyfile", "--config", file], { env });
  await running.waitForLine(/serving initial configuration/u);
  return {
    origin: `http://127.0.0.1:${port}`,
    output: running.output,
    [Symbol.asyncDispose]: async () => {
      await running.stop();
      rmSync(home, { recursive: true, force: true });
    },
  };
}
