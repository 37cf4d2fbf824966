import type { Config } from "../../config/config.ts";
import type { Environment } from "../../config/substitute.ts";
import { GatewayError } from "../../errors.ts";
import { exitCodes } from "../commands.ts";
import { defineCommand, parsePort, UsageError } from "../define-command.ts";
import { withoutUndefined } from "../../lib/without-undefined.ts";
import type { ListeningGateway } from "../../gateway/gateway.ts";
import type { ServingIo } from "../io.ts";
import { configArgument } from "./inline-config.ts";
import { recordWarnings } from "./preflight.ts";
import { type ProcessRole, startGateway, type StartedGateway, type StartOptions } from "./start.ts";
import type { WorkerPool } from "./worker-pool.ts";

/** `headgate run`: serves over HTTP until it is stopped. */
export const run = defineCommand("run", async ({ values, positionals, program }, io: ServingIo) => {
  const { federate = [] } = values;
  const config = federate.length === 0 ? configArgument(positionals, values.config) : values.config;
  const { host, port, "admin-port": adminPort, "allow-anonymous": allowAnonymous } = values;
  const options: StartOptions = {
    ...values,
    config,
    ...(federate.length === 0 ? {} : { federate: [...federate, ...positionals] }),
    program,
    listen: withoutUndefined({ host, port: parsePort(port), allowAnonymous }),
    adminPort: parsePort(adminPort),
    workers: parseWorkers(values.workers),
    takesSocket: true,
    usesFolder: true,
  };
  // `node:cluster` is not asked, because loading it costs milliseconds at every start. Without a channel the variable
  // was only inherited, and no process would say what to serve.
  if (io.env["HEADGATE_WORKER"] !== undefined && process.connected)
    return (await import("./worker-process.ts")).runWorker(options, io);
  const primary = createPrimaryRole();
  const started = await startGateway(options, io, primary.role);
  const { gateway, log } = started;
  using _following = started.followFile();
  try {
    io.err(startupMessage(await gateway.listen(), started, io));
  } catch (error) {
    io.err(`headgate: ${GatewayError.from(error).message}\n`);
    await gateway.close();
    return exitCodes.failed.code;
  }
  const signal = await Promise.race([io.stopped(), primary.hopeless]);
  log.info({ signal }, "shutting down");
  await gateway.close();
  log.flush();
  return signal === undefined || gateway.lostRecords() > 0 ? exitCodes.failed.code : exitCodes.ok.code;
});

/** With several workers, this process starts them and serves operators; with one, it is like any other. */
function createPrimaryRole(): { readonly role: ProcessRole; readonly hopeless: Promise<undefined> } {
  const hopeless = Promise.withResolvers<undefined>();
  let pool: WorkerPool | undefined;
  return {
    hopeless: hopeless.promise,
    role: {
      seats: async ({ workers }, log, files) => {
        if (workers === 1) return {};
        const { createWorkerPool } = await import("./worker-pool.ts");
        pool = createWorkerPool({ count: workers, log, files });
        void pool.hopeless.then(() => hopeless.resolve(undefined));
        return { primary: pool };
      },
      reload: (files, apply) => (pool === undefined ? apply() : pool.reload(files, apply)),
    },
  };
}

function parseWorkers(text: string | undefined): number | "auto" | undefined {
  if (text === undefined || text === "auto") return text;
  if (!/^[1-9]\d{0,2}$/u.test(text)) throw new UsageError(`\`${text}\` is not a number of workers: 1 or more, or auto`);
  return Number(text);
}

function recordingTarget({ record }: Config, env: Environment): string | undefined {
  if (record === undefined || record === false || recordWarnings({ record }, env).length > 0) return undefined;
  return record.postgres === undefined ? record.file : "PostgreSQL";
}

function pathOf(prefixes: readonly string[]): string {
  return `${prefixes.at(-1) ?? ""}/mcp`;
}

/** Where the gateway listens, and for the demo how to connect a client and what to try. */
function startupMessage(
  { url, adminUrl, consoleUrl }: ListeningGateway,
  { config, isDemo }: StartedGateway,
  { ownCommand: command, env }: Pick<ServingIo, "ownCommand" | "env">,
): string {
  const endpoints = Object.values(config.routes).map(({ name, prefixes }) => ({
    name,
    endpoint: config.listen.unixSocket === undefined ? `${url}${pathOf(prefixes)}` : `${url} (${pathOf(prefixes)})`,
  }));
  const first = endpoints[0]?.endpoint ?? url;
  const lines = [`headgate listening on ${first}`];
  if (endpoints.length > 1) for (const { name, endpoint } of endpoints) lines.push(`  ${name.padEnd(16)} ${endpoint}`);
  if (consoleUrl !== undefined) lines.push(`  console, signed in:    ${consoleUrl}`);
  if (adminUrl !== undefined) lines.push(`  metrics and readiness: ${adminUrl}/metrics, ${adminUrl}/readyz`);
  const place = recordingTarget(config, env);
  if (place !== undefined)
    lines.push(`  recording to ${place} (turn it off with --no-record, or \`record: false\` in a configuration)`);
  if (isDemo) {
    const client = { mcpServers: { headgate: { type: "http", url: first } } };
    const isDefault = config.listen.port === 8484;
    const target = isDefault ? "" : `${first} `;
    lines.push(
      "",
      "  This is the demo server. To connect a client, paste:",
      `    ${JSON.stringify(client)}`,
      "",
      "  Call a tool through the gateway, in another terminal:",
      `    ${command} call ${target}add a=2 b=40`,
      `    ${command} call ${target}count_slowly`,
      "",
      "  Put it in front of your own server:",
      `    ${command} run --upstream https://example.com/mcp`,
      `    ${command} run -- npx -y @modelcontextprotocol/server-everything`,
      "",
      "  Or write a configuration, optionally from those of your clients:",
      `    ${command} init`,
      "",
      "  Press Ctrl+C to stop.",
    );
  }
  return `${lines.join("\n")}\n`;
}
