// Installs the Debian packages that the end-to-end tests use: databases, proxies, shells and browsers that are not ours. Does
// nothing where they are there; without the rights to install it says what to do and fails.
//   node scripts/system-parts.ts
import { existsSync, globSync } from "node:fs";

import { runTool } from "./run/tool.ts";

interface Part {
  readonly name: string;
  /** The Debian package. */
  readonly package: string;
  /** One of these exists where it is installed. */
  readonly marks: readonly string[];
}

const parts: readonly Part[] = [
  { name: "PostgreSQL", package: "postgresql", marks: ["/usr/lib/postgresql/*/bin/postgres"] },
  { name: "nginx", package: "nginx-light", marks: ["/usr/sbin/nginx"] },
  { name: "Caddy", package: "caddy", marks: ["/usr/bin/caddy"] },
  { name: "Redis", package: "redis-server", marks: ["/usr/bin/redis-server"] },
  { name: "LuaJIT", package: "luajit", marks: ["/usr/bin/luajit"] },
  { name: "zsh", package: "zsh", marks: ["/usr/bin/zsh", "/bin/zsh"] },
  { name: "fish", package: "fish", marks: ["/usr/bin/fish"] },
  { name: "Chromium", package: "chromium", marks: ["/usr/bin/chromium"] },
];

const installLimitMs = 5 * 60 * 1000;

const missing = parts.filter(({ marks }) => !marks.some(isThere));
process.exitCode = missing.length === 0 ? 0 : await install(missing);

async function install(wanted: readonly Part[]): Promise<number> {
  const packages = wanted.map((part) => part.package);
  const names = wanted.map(({ name }) => name).join(", ");
  const command = `apt-get install -y --no-install-recommends ${packages.join(" ")}`;
  if (process.getuid?.() !== 0 || !existsSync("/usr/bin/apt-get")) {
    console.error(`${names} missing; the end-to-end tests need them. Install them as root with:\n  ${command}`);
    return 1;
  }
  console.log(`installing ${names}`);
  for (const step of [["apt-get", "update"], command.split(" ")] as const) {
    const [program = "", ...args] = step;
    const { exitCode, output } = await runTool(["env", "DEBIAN_FRONTEND=noninteractive", program, ...args], {
      cwd: import.meta.dirname,
      timeoutMs: installLimitMs,
    });
    // An index that cannot be renewed may still be good enough to install from.
    if (exitCode !== 0 && program === "apt-get" && args[0] === "install") {
      console.error(`${command} failed:\n${output}`);
      return 1;
    }
  }
  return 0;
}

function isThere(mark: string): boolean {
  return mark.includes("*") ? globSync(mark).length > 0 : existsSync(mark);
}
