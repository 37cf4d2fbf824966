import type { Config, FederationConfig, RouteConfig, ServerUpstream } from "../../config/config.ts";
import { formatProblem } from "../../config/issues.ts";
import { configJsonSchema } from "../../config/json-schema.ts";
import { type Inspection, loadConfig } from "../../config/load.ts";
import { createInterceptorLoader } from "../../gateway/wiring/interceptor-files.ts";
import { createTextRedaction } from "../../gateway/wiring/telemetry.ts";
import { exitCodes } from "../commands.ts";
import { configInFolder, defineCommand, namedConfig, UsageError } from "../define-command.ts";
import { counted } from "../client/resources.ts";
import type { CliIo } from "../io.ts";
import { lockedNameWarnings } from "./name-findings.ts";
import { portFindings, preflight } from "./preflight.ts";

/** `headgate check FILE`: lists the routes of a configuration, or everything that is wrong with it. */
export const check = defineCommand("check", async ({ values, positionals }, io: CliIo) => {
  const file = namedConfig(positionals, values.config) ?? configInFolder();
  if (file === undefined)
    throw new UsageError("no headgate.yaml in this folder; name a FILE, or write one with `headgate init`");
  const inspect = async (config: Config): Promise<Inspection> => {
    const { problems, warnings } = preflight(config, io.env);
    const names = problems.length === 0 ? lockedNameWarnings(config) : [];
    return { problems, warnings: [...warnings, ...names, ...(await portFindings(config))] };
  };
  const result = await loadConfig({
    file,
    env: io.env,
    readFile: io.readFile,
    ...(values["only-file"] === true ? {} : { inspect }),
  });
  if (!result.ok) {
    for (const problem of result.problems) io.err(`${formatProblem(problem, file)}\n`);
    return exitCodes.usage.code;
  }
  const loaded = values["only-file"] === true ? undefined : await createInterceptorLoader().load(result.config);
  if (loaded?.ok === false) {
    for (const problem of loaded.problems) io.err(`${formatProblem(problem, file)}\n`);
    return exitCodes.usage.code;
  }
  for (const warning of result.warnings) io.err(`${formatProblem(warning, file)} (warning)\n`);
  io.out(formatSummary(result.config));
  return exitCodes.ok.code;
});

/** `headgate schema`: prints the JSON schema of the configuration. */
export const schema = defineCommand("schema", async ({ positionals }, io: CliIo) => {
  if (positionals.length > 0) throw new UsageError("takes no arguments");
  io.out(`${JSON.stringify(configJsonSchema(), undefined, 2)}\n`);
  return Promise.resolve(exitCodes.ok.code);
});

function formatSummary(config: Config): string {
  const redact = createTextRedaction(config.secrets.redact);
  const routes = Object.values(config.routes);
  const rows = routes.map((route) => [
    route.name,
    route.prefixes.map((prefix) => `${prefix}/mcp`).join(" "),
    redact(formatUpstream(route)),
  ]);
  const widths = [0, 1].map((column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)));
  const views = routes.filter(isView).length;
  const members = routes.map((route) => {
    const { upstream } = route;
    // The servers of a view are those of its route.
    return upstream.type === "federation" && !isView(route) ? formatMembers(upstream) : [];
  });
  const lines = rows.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join("  ")
      .trimEnd(),
  );
  const count = `${counted(routes.length - views, "route")}${views === 0 ? "" : `, ${counted(views, "view")}`}`;
  const shown = lines.flatMap((line, index) => [
    `  ${line}\n`,
    ...(members[index] ?? []).map((member) => `    ${redact(member)}\n`),
  ]);
  const workers = config.workers === 1 ? "" : `, ${config.workers} workers`;
  return `ok: ${count} on ${formatListener(config)}${workers}\n${shown.join("")}`;
}

function isView({ upstream }: RouteConfig): boolean {
  return upstream.type === "federation" && upstream.view !== undefined;
}

function formatListener({ listen }: Config): string {
  const { host, port, tls, unixSocket } = listen;
  if (unixSocket !== undefined) return unixSocket;
  return `${tls === undefined ? "http" : "https"}://${host.includes(":") ? `[${host}]` : host}:${port}`;
}

/** One line for each server behind a route: how its names begin, its own name where that differs, and its address. */
function formatMembers({ members, separator }: FederationConfig): readonly string[] {
  const labels = members.map(({ name, prefix }) => {
    if (prefix === "") return `${name}, bare names`;
    return prefix === name ? `${prefix}${separator}…` : `${name}, as ${prefix}${separator}…`;
  });
  const width = Math.max(...labels.map(({ length }) => length));
  return members.map(({ required, upstream }, index) => {
    const [label = ""] = [labels[index]];
    return `${label.padEnd(width)}  ${formatServer(upstream)}${required ? "  (required)" : ""}`;
  });
}

/** The server behind a route, as shown to people. */
export function formatUpstream({ upstream }: RouteConfig): string {
  if (upstream.type !== "federation") return formatServer(upstream);
  if (upstream.view !== undefined) return upstream.view.discovery === "search" ? "view, found by searching" : "view";
  return `${upstream.members.length} ${upstream.members.length === 1 ? "server" : "servers"} as one`;
}

function formatServer(upstream: ServerUpstream): string {
  switch (upstream.type) {
    case "http":
      return upstream.url;
    case "stdio":
      return [upstream.command, ...upstream.args].join(" ");
    case "demo":
      return "built-in demo server";
    case "recordings":
      return "recordings of this gateway";
    case "in-process":
      return "in-process server";
  }
}
