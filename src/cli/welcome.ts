import type { Config } from "../config/config.ts";

/** What to say once the gateway listens. */
export interface StartupFacts {
  readonly url: string;
  readonly adminUrl: string | undefined;
  readonly config: Config;
  readonly isDemo: boolean;
}

function recordingTarget({ record }: Config): string | undefined {
  if (record === undefined || record === false) return undefined;
  return record.postgres === undefined ? record.file : "PostgreSQL";
}

/** The lines that greet whoever started the gateway: where it is, how to connect a client, one command to try. */
export function startupMessage({ url, adminUrl, config, isDemo }: StartupFacts): string {
  const endpoints = Object.values(config.routes).map(({ name, prefixes }) => ({
    name,
    endpoint: `${url}${prefixes.at(-1) ?? ""}/mcp`,
  }));
  const first = endpoints[0]?.endpoint ?? url;
  const lines = [`headgate listening on ${first}`];
  if (endpoints.length > 1)
    for (const { name, endpoint } of endpoints) lines.push(`  ${name.padEnd(16)} ${endpoint}`);
  if (adminUrl !== undefined) lines.push(`  figures and readiness: ${adminUrl}/metrics, ${adminUrl}/readyz`);
  const place = recordingTarget(config);
  if (place !== undefined) lines.push(`  recording to ${place}; \`record: false\` turns it off`);
  if (isDemo) {
    const client = { mcpServers: { headgate: { type: "http", url: first } } };
    const isDefault = config.listen.port === 8484;
    const target = isDefault ? "" : ` --url ${first}`;
    lines.push(
      "",
      "  A demo server is behind it. To connect a client, paste:",
      `    ${JSON.stringify(client)}`,
      "",
      "  To make a call through the gateway, in another terminal:",
      `    npm run -s headgate -- call add a=2 b=40${target}`,
      `    npm run -s headgate -- call count_slowly${target}`,
      "",
      "  To put it in front of your own server:",
      "    npm run -s headgate -- run --upstream https://example.com/mcp",
      "    npm run -s headgate -- run -- npx -y @modelcontextprotocol/server-everything",
      "",
      "  Stop it with Ctrl+C.",
    );
  }
  return `${lines.join("\n")}\n`;
}
