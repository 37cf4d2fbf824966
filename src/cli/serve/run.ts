import type { Config } from "../../config/config.ts";
import { GatewayError } from "../../errors.ts";
import { exitCodes } from "../commands.ts";
import { defineCommand, UsageError } from "../define-command.ts";
import type { ListeningGateway } from "../../gateway/gateway.ts";
import type { ServingIo } from "../io.ts";
import { startGateway, type StartedGateway } from "./start.ts";

/** `headgate run`: serves over HTTP until it is stopped. */
export const run = defineCommand("run", async ({ values, positionals, program }, io: ServingIo) => {
  const { federate = [] } = values;
  const [stray] = federate.length === 0 ? positionals : [];
  if (stray !== undefined)
    throw new UsageError(`unexpected argument \`${stray}\`; put \`--\` before a command to start`);
  const [port, adminPort] = [parsePort(values.port), parsePort(values["admin-port"])];
  const { host } = values;
  const allowAnonymous = values["allow-anonymous"];
  const started = await startGateway(
    {
      ...values,
      ...(federate.length === 0 ? {} : { federate: [...federate, ...positionals] }),
      program,
      listen: {
        ...(host === undefined ? {} : { host }),
        ...(port === undefined ? {} : { port }),
        ...(allowAnonymous === undefined ? {} : { allowAnonymous }),
      },
      adminPort,
      usesFolder: true,
    },
    io,
  );
  const { gateway, log } = started;
  using _following = started.followFile();
  try {
    io.err(startupMessage(await gateway.listen(), started, io.ownCommand));
  } catch (error) {
    io.err(`headgate: ${GatewayError.from(error).message}\n`);
    await gateway.close();
    return exitCodes.failed.code;
  }
  const signal = await io.stopped();
  log.info({ signal }, "shutting down");
  await gateway.close();
  log.flush();
  return gateway.lostRecords() > 0 ? exitCodes.failed.code : exitCodes.ok.code;
});

function parsePort(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const port = /^\d{1,5}$/u.test(text) ? Number(text) : Number.NaN;
  if (!(port <= 65_535)) throw new UsageError(`\`${text}\` is not a port: a number from 0 to 65535`);
  return port;
}

function recordingTarget({ record }: Config): string | undefined {
  if (record === undefined || record === false) return undefined;
  return record.postgres === undefined ? record.file : "PostgreSQL";
}

/** Where the gateway listens, and for the demo how to connect a client and what to try. */
function startupMessage(
  { url, adminUrl, consoleUrl }: ListeningGateway,
  { config, isDemo }: StartedGateway,
  command: string,
): string {
  const endpoints = Object.values(config.routes).map(({ name, prefixes }) => ({
    name,
    endpoint: `${url}${prefixes.at(-1) ?? ""}/mcp`,
  }));
  const first = endpoints[0]?.endpoint ?? url;
  const lines = [`headgate listening on ${first}`];
  if (endpoints.length > 1) for (const { name, endpoint } of endpoints) lines.push(`  ${name.padEnd(16)} ${endpoint}`);
  if (consoleUrl !== undefined) lines.push(`  console, signed in:    ${consoleUrl}`);
  if (adminUrl !== undefined) lines.push(`  metrics and readiness: ${adminUrl}/metrics, ${adminUrl}/readyz`);
  const place = recordingTarget(config);
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
      "  Or write a configuration, also from those of your clients:",
      `    ${command} init`,
      "",
      "  Press Ctrl+C to stop.",
    );
  }
  return `${lines.join("\n")}\n`;
}
