import { errorTable } from "../../errors.ts";
import type { Config, RouteConfig } from "../../config/config.ts";
import { loadConfig } from "../../config/load.ts";
import { formatProblem } from "../../config/problem.ts";
import type { CliIo } from "../io.ts";
import { configJsonSchema } from "../../config/json-schema.ts";

const checkUsage = "usage: headgate check FILE\n";

/** Exit code of everything that is wrong with a configuration, or with how it was asked for. */
const configInvalid = errorTable.config_invalid.exitCode ?? 2;

/** `headgate check FILE`: says whether a configuration is right and what it amounts to, or everything that is wrong. */
export async function check(args: readonly string[], io: CliIo): Promise<number> {
  const [file, ...rest] = args;
  if (file === undefined || rest.length > 0 || file.startsWith("-")) {
    io.err(checkUsage);
    return configInvalid;
  }
  const result = await loadConfig({ file, env: io.env, readFile: io.readFile });
  if (!result.ok) {
    for (const problem of result.problems) io.err(`${formatProblem(problem, file)}\n`);
    return configInvalid;
  }
  for (const warning of result.warnings) io.err(`${formatProblem(warning, file)} (warning)\n`);
  io.out(formatSummary(result.config));
  return 0;
}

function formatSummary(config: Config): string {
  const routes = Object.values(config.routes);
  const rows = routes.map((route) => [
    route.name,
    route.prefixes.map((prefix) => `${prefix}/mcp`).join(" "),
    config.secrets.redact(formatUpstream(route)),
  ]);
  const widths = [0, 1].map((column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const lines = rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
  const count = `${routes.length} ${routes.length === 1 ? "route" : "routes"}`;
  return `ok: ${count} on ${formatListener(config)}\n${lines.map((line) => `  ${line}\n`).join("")}`;
}

function formatListener({ listen }: Config): string {
  const { host, port, tls, unixSocket } = listen;
  if (unixSocket !== undefined) return unixSocket;
  return `${tls === undefined ? "http" : "https"}://${host.includes(":") ? `[${host}]` : host}:${port}`;
}

function formatUpstream({ upstream }: RouteConfig): string {
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

const schemaUsage = "usage: headgate schema\n";
const schemaUsageExit = 2;

/** `headgate schema`: prints the JSON schema of the configuration, for editors and other checks. */
export async function schema(args: readonly string[], io: CliIo): Promise<number> {
  if (args.length > 0) {
    io.err(schemaUsage);
    return schemaUsageExit;
  }
  io.out(`${JSON.stringify(configJsonSchema(), undefined, 2)}\n`);
  return Promise.resolve(0);
}
