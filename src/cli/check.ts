import { errorTable } from "../errors.ts";
import type { Config, Route } from "../config/config.ts";
import { loadConfig } from "../config/load.ts";
import { formatProblem } from "../config/problem.ts";
import type { CliIo } from "./io.ts";

const usage = "usage: headgate check FILE\n";

/** Exit code of everything that is wrong with a configuration, or with how it was asked for. */
const configInvalid = errorTable.config_invalid.exitCode ?? 2;

/** `headgate check FILE`: says whether a configuration is right and what it amounts to, or everything that is wrong. */
export async function check(args: readonly string[], io: CliIo): Promise<number> {
  const [file, ...rest] = args;
  if (file === undefined || rest.length > 0 || file.startsWith("-")) {
    io.err(usage);
    return configInvalid;
  }
  const result = await loadConfig({ file, env: io.env, readFile: io.readFile });
  if (!result.ok) {
    for (const problem of result.problems) io.err(`${formatProblem(problem, file)}\n`);
    return configInvalid;
  }
  for (const warning of result.warnings) io.err(`${formatProblem(warning, file)} (warning)\n`);
  io.out(summary(result.config));
  return 0;
}

function summary(config: Config): string {
  const routes = Object.values(config.routes);
  const rows = routes.map((route) => [
    route.name,
    route.prefixes.map((prefix) => `${prefix}/mcp`).join(" "),
    config.secrets.redact(targetOf(route)),
  ]);
  const widths = [0, 1].map((column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const lines = rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
  const count = `${routes.length} ${routes.length === 1 ? "route" : "routes"}`;
  return `ok: ${count} on ${listenerOf(config)}\n${lines.map((line) => `  ${line}\n`).join("")}`;
}

function listenerOf({ listen }: Config): string {
  const { host, port, tls, unixSocket } = listen;
  if (unixSocket !== undefined) return unixSocket;
  return `${tls === undefined ? "http" : "https"}://${host.includes(":") ? `[${host}]` : host}:${port}`;
}

function targetOf({ upstream }: Route): string {
  switch (upstream.type) {
    case "http":
      return upstream.url;
    case "stdio":
      return [upstream.command, ...upstream.args].join(" ");
    case "demo":
      return "built-in demo server";
    case "in-process":
      return "in-process server";
  }
}
