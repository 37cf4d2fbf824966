import { randomUUID } from "node:crypto";
import { performance } from "node:perf_hooks";
import { createInterface } from "node:readline";
import { PassThrough } from "node:stream";

import type { Client, JSONRPCMessage, Transport } from "@modelcontextprotocol/client";

import { type Config, type RouteConfig, unnamedRoute } from "../../config/config.ts";
import { type ConfigFinding, formatPath, formatProblem } from "../../config/issues.ts";
import { loadConfig } from "../../config/load.ts";
import type { Environment } from "../../config/substitute.ts";
import { systemTimer } from "../../core/exchange.ts";
import { createGateway } from "../../gateway/gateway.ts";
import { createTextRedaction } from "../../gateway/wiring/telemetry.ts";
import { isObject } from "../../lib/is-object.ts";
import { thrownMessage } from "../../lib/thrown-message.ts";
import { createLogger, type Logger } from "../../telemetry/log.ts";
import { serveStdio } from "../../transports/stdio/server.ts";
import { counted } from "../client/resources.ts";
import {
  gapsOf,
  mergeNotes,
  noList,
  readPrompts,
  readResources,
  readResourceTemplates,
  readTools,
  type WholeList,
} from "../client/lists.ts";
import { exitCodes } from "../commands.ts";
import { configInFolder, defineCommand, InputFileError, namedConfig, UsageError } from "../define-command.ts";
import { isProgram } from "../find-program.ts";
import { type Colors, colorsFor, packageVersion, type CommandIo } from "../io.ts";
import { printableLine } from "../text-layout.ts";
import { formatUpstream } from "./check.ts";
import { checkInlineOptions, inlineConfig } from "./inline-config.ts";
import { findAuthorizationServers, type Finding, probeNetwork } from "./network-probe.ts";
import { portFindings, preflight } from "./preflight.ts";
import { findUnusedNames } from "./name-findings.ts";

/** Long enough for npx to download a package. */
const connectTimeoutMs = 60_000;
/** Lines of standard error that are shown of a server that failed. */
const shownLines = 8;

/** `headgate doctor`: looks at everything that a gateway needs, and tries each server once. */
export const doctor = defineCommand("doctor", async ({ values, positionals, program }, io: CommandIo) => {
  const named = namedConfig(positionals, values.config);
  const isInline = values.upstream !== undefined || program !== undefined;
  if (isInline && named !== undefined) throw new UsageError("FILE, --upstream URL and -- COMMAND cannot be combined");
  const file = isInline ? undefined : (named ?? configInFolder());
  if (file === undefined && !isInline)
    throw new UsageError("expected a FILE, --upstream URL or -- COMMAND; there is no headgate.yaml in this folder");
  if (isInline) checkInlineOptions({ ...values, program });
  const loaded = await loadConfig({
    ...(file === undefined
      ? { text: JSON.stringify(inlineConfig({ ...values, program }, io.env)), format: "json" as const }
      : { file }),
    env: io.env,
    readFile: io.readFile,
  });
  if (!loaded.ok) throw new InputFileError(loaded.problems.map((problem) => formatProblem(problem, file)).join("\n"));
  const report = createReport(io);
  const { config } = loaded;
  report.section(file ?? "headgate");
  report.add({ outcome: "ok", text: `Node ${process.versions.node}` });
  if (file !== undefined) for (const finding of await inspect(config, io)) report.add(finding);
  const servers = Object.values(config.routes)
    .flatMap(serversOf)
    .filter(({ label, route }) => values.route === undefined || [label, route.name].includes(values.route));
  if (servers.length === 0)
    throw new UsageError(
      `unknown route \`${values.route ?? ""}\`; expected ${Object.keys(config.routes)
        .map((name) => `\`${name}\``)
        .join(", ")}`,
    );
  const redact = createTextRedaction(config.secrets.redact);
  for (const server of servers) {
    report.section(`${server.label}: ${redact(formatUpstream(server.route))}`);
    for (const finding of await server.examine(config, server.route, io)) report.add(finding);
  }
  return report.finish();
});

interface Server {
  readonly label: string;
  readonly route: RouteConfig;
  readonly examine: (config: Config, route: RouteConfig, io: CommandIo) => Promise<readonly Finding[]>;
}

/** Each server behind a route, as a route of its own; several are also tried together. */
function serversOf(route: RouteConfig): readonly Server[] {
  const { upstream, name } = route;
  if (upstream.type !== "federation") return [{ label: name, route, examine }];
  // A view has the servers of its route.
  if (upstream.view !== undefined) return [];
  const members = upstream.members.map((member) => ({
    label: `${name}/${member.name}`,
    route: { ...route, upstream: member.upstream },
    examine,
  }));
  return [...members, { label: name, route, examine: examineTogether }];
}

async function inspect(config: Config, { env }: CommandIo): Promise<readonly Finding[]> {
  const { problems, warnings } = preflight(config, env);
  const toFinding =
    (outcome: Finding["outcome"]) =>
    ({ path, message }: ConfigFinding): Finding => ({ outcome, text: `${formatPath(path)}: ${message}` });
  const found = [
    ...problems.map(toFinding("failed")),
    ...[...warnings, ...(await portFindings(config))].map(toFinding("warning")),
  ];
  return found.length > 0 ? found : [{ outcome: "ok", text: "files, folders and ports" }];
}

/** Tries one server: connection, start and answers. */
async function examine(config: Config, route: RouteConfig, io: CommandIo): Promise<readonly Finding[]> {
  const { upstream } = route;
  const findings: Finding[] = [];
  if (upstream.type === "http") findings.push(...(await probeNetwork(upstream)));
  if (
    upstream.type === "stdio" &&
    !isProgram(upstream.command, { PATH: io.env["PATH"], ...upstream.env }, upstream.cwd)
  )
    findings.push({
      outcome: "failed",
      text: `no command \`${upstream.command}\` in PATH`,
      remedy: "install it, or write its full path",
    });
  if (findings.some(({ outcome }) => outcome === "failed")) return findings;
  return [...findings, ...(await converse(config, route, io))];
}

/** Problems that only appear when servers are combined: incomplete lists, names that clash, names that fit nothing. */
async function examineTogether(config: Config, route: RouteConfig, io: CommandIo): Promise<readonly Finding[]> {
  const { upstream } = route;
  if (upstream.type !== "federation") return [];
  const plain: RouteConfig = { ...route, upstream: { ...upstream, overrides: { tools: {} }, views: [] } };
  try {
    await using connection = await connectTo(config, plain, io, createLogLines());
    const { client } = connection;
    const { prompts: hasPrompts, resources: hasResources } = client.getServerCapabilities() ?? {};
    const failures: Finding[] = [];
    /** One unreadable list does not make the others unreadable. */
    const read = async <Entry>(method: string, list: Promise<WholeList<Entry>>): Promise<WholeList<Entry>> =>
      list.catch((error: unknown) => {
        failures.push({ outcome: "failed", text: printableLine(`${method}: ${thrownMessage(error)}`) });
        return noList;
      });
    const tools = await read("tools/list", readTools(client));
    const prompts = hasPrompts === undefined ? noList : await read("prompts/list", readPrompts(client));
    const others: readonly WholeList<unknown>[] =
      hasResources === undefined
        ? []
        : [
            await read("resources/list", readResources(client)),
            await read("resources/templates/list", readResourceTemplates(client)),
          ];
    const notes = mergeNotes([tools, prompts, ...others].map((list) => list.notes));
    const names = prompts.entries.map(({ name }) => name);
    return [
      { outcome: "ok", text: `${counted(tools.entries.length, "tool")} together` },
      ...failures,
      ...gapsOf(notes).map((text): Finding => ({ outcome: "warning", text })),
      ...(failures.length > 0 ? [] : findUnusedNames(upstream, { tools: tools.entries, prompts: names, notes })),
    ];
  } catch (error) {
    return [{ outcome: "failed", text: printableLine(thrownMessage(error)) }];
  }
}

function connectTo(config: Config, route: RouteConfig, { env }: CommandIo, { log }: LogLines) {
  const alone: Config = {
    ...config,
    record: false,
    admin: false,
    audit: undefined,
    drift: undefined,
    interceptors: [],
    routes: { [unnamedRoute]: { ...route, name: unnamedRoute, policy: undefined } },
  };
  return connectThroughGateway(alone, unnamedRoute, { env, log, timeoutMs: connectTimeoutMs });
}

/** What only the server itself can tell: its name, its era and what it offers. */
async function converse(config: Config, route: RouteConfig, io: CommandIo): Promise<readonly Finding[]> {
  const lines = createLogLines();
  const startedAt = performance.now();
  const seconds = (): string => `${((performance.now() - startedAt) / 1000).toFixed(1)} s`;
  try {
    await using connection = await connectTo(config, route, io, lines);
    const { client } = connection;
    const { name, version } = client.getServerVersion() ?? { name: "unnamed server", version: "" };
    const era =
      lines.era() ?? (route.upstream.type === "http" || route.upstream.type === "stdio" ? "legacy" : "both eras");
    const answered = `${printableLine(`${name} ${version}`)} answered after ${seconds()}, ${era}`;
    const capabilities = client.getServerCapabilities() ?? {};
    const { tools, resources, prompts } = capabilities;
    const counts = [
      tools && counted((await client.listTools()).tools.length, "tool"),
      resources && counted((await client.listResources()).resources.length, "resource"),
      prompts && counted((await client.listPrompts()).prompts.length, "prompt"),
    ].filter((count) => count !== undefined);
    const absent = Object.entries({ tools, resources, prompts }).flatMap(([kind, one]) => (one ? [] : [`no ${kind}`]));
    const has = [...counts, ...absent].join(", ");
    return [
      { outcome: "ok", text: answered },
      { outcome: "ok", text: has },
    ];
  } catch (error) {
    return [
      { outcome: "failed", ...(await explainFailure(error, route, lines)) },
      ...lines.stderr().map((line): Finding => ({ outcome: "warning", text: `stderr: ${printableLine(line)}` })),
    ];
  }
}

async function explainFailure(
  error: unknown,
  { upstream }: RouteConfig,
  lines: LogLines,
): Promise<Pick<Finding, "text" | "remedy">> {
  const text = printableLine(thrownMessage(error));
  const details = lines.problems().join("; ");
  const isSaid = details === "" || upstream.type !== "http" || text.includes(printableLine(details));
  const said = isSaid ? text : `${text} (${printableLine(details)})`;
  const isRefused = /\b(?:401|403)\b|credentials/u.test(`${text} ${details}`);
  if (upstream.type === "http" && isRefused) {
    const issuers = await findAuthorizationServers(new URL(upstream.url));
    const from = issuers.length === 0 ? "" : `; tokens come from ${issuers.join(", ")}`;
    return {
      text: `${said}${from}`,
      remedy: "set `upstream.headers` (--upstream-header) or `upstream.credentials`",
    };
  }
  if (upstream.type === "http") return { text: said, remedy: remedyFor(said) };
  return {
    text: said,
    remedy:
      "run the command by hand; behind a proxy it may need variables: --env NAME, or `upstream.env` in the configuration",
  };
}

/** Remedies for a server that was reached but gives no useful answer. */
function remedyFor(text: string): string {
  if (/does not match the HTTP/u.test(text)) return "check the port: what listens there does not speak HTTP";
  if (/status 5\d\d/u.test(text)) return "look at the log of the server, or of the proxy in front of it";
  if (/status 3\d\d/u.test(text))
    return "use the URL that it redirects to; a login page means that it needs credentials";
  if (/UND_ERR_SOCKET|ECONNRESET|other side closed/u.test(text))
    return "look at the log of the server; a server with TLS needs a URL with https://";
  if (/in time|timed? ?out|TIMEOUT/iu.test(text))
    return "look at the log of the server; it took the connection, and is silent";
  return "check the path of the URL; the endpoint of most servers is /mcp or /sse";
}

/** What the gateway logs meanwhile. */
interface LogLines {
  readonly log: ReturnType<typeof createLogger>;
  readonly era: () => string | undefined;
  readonly stderr: () => readonly string[];
  readonly problems: () => readonly string[];
}

function createLogLines(): LogLines {
  const entries: Readonly<Record<string, unknown>>[] = [];
  const log = createLogger({
    level: "debug",
    pretty: false,
    destination: {
      write: (line) => {
        const entry: unknown = JSON.parse(line);
        if (isObject(entry)) entries.push(entry);
      },
    },
  });
  const texts = (key: string): readonly string[] =>
    entries.flatMap((entry) => (typeof entry[key] === "string" ? [entry[key]] : []));
  return {
    log,
    era: () => texts("era").at(-1),
    // A server that does not start is tried more than once.
    stderr: () => [...new Set(texts("line"))].slice(-shownLines),
    // Only the message of a cause, which is its first line.
    problems: () => [
      ...new Set(texts("cause").map((cause) => cause.split("\n")[0]?.replace(/^\w*Error: /u, "") ?? "")),
    ],
  };
}

function createReport({ out, stdout, env }: CommandIo) {
  const colors: Colors = colorsFor({ stdout, env });
  const marks = { ok: colors.green("ok  "), warning: colors.yellow("warn"), failed: colors.red("FAIL") };
  const counts = { ok: 0, warning: 0, failed: 0 };
  return {
    section: (title: string): void => {
      out(`${colors.bold(printableLine(title))}\n`);
    },
    add: ({ outcome, text, remedy }: Finding): void => {
      counts[outcome]++;
      out(`  ${marks[outcome]} ${text}\n${remedy === undefined ? "" : `       ${remedy}\n`}`);
    },
    finish: (): number => {
      out(`${counts.ok} ok, ${counted(counts.warning, "warning")}, ${counts.failed} failed\n`);
      return counts.failed > 0 ? exitCodes.failed.code : exitCodes.ok.code;
    },
  };
}

/** A client of one route, inside this process. */
interface GatewayClient extends AsyncDisposable {
  readonly client: Client;
}

/** Connects to a route as an admitted client, through a gateway that neither listens nor records. */
async function connectThroughGateway(
  config: Config,
  route: string,
  { env, log, timeoutMs }: { readonly env: Environment; readonly log: Logger; readonly timeoutMs: number },
): Promise<GatewayClient> {
  const sdk = await import("@modelcontextprotocol/client");
  const gateway = createGateway(
    { ...config, workers: 1 },
    {
      log,
      environment: env,
      demo: async () => (await import("../../demo/server.ts")).createDemoServer(),
    },
  );
  const [input, output] = [new PassThrough(), new PassThrough()];
  const channel = serveStdio({ input, output, newId: randomUUID, setTimer: systemTimer }, (opened) =>
    gateway.serve(opened, route, () => {}),
  );
  const transport: Transport = {
    start: async () => {
      createInterface({ input: output }).on("line", (line) => {
        // The gateway writes messages only.
        transport.onmessage?.(JSON.parse(line) as JSONRPCMessage);
      });
      return Promise.resolve();
    },
    send: async (message) => {
      input.write(`${JSON.stringify(message)}\n`);
      return Promise.resolve();
    },
    close: async () => {
      transport.onclose?.();
      return Promise.resolve();
    },
  };
  const close = async (): Promise<void> => {
    await gateway.close();
    await channel.close("the check is over");
  };
  const client = new sdk.Client(
    { name: "headgate-doctor", version: packageVersion() },
    { versionNegotiation: { mode: "auto", probe: { timeoutMs } } },
  );
  try {
    await client.connect(transport, { timeout: timeoutMs });
  } catch (error) {
    await close();
    throw error;
  }
  return {
    client,
    [Symbol.asyncDispose]: async () => {
      await client.close();
      await close();
    },
  };
}
