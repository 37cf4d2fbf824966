import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";

import { describe, expect, it } from "vitest";

import { loadConfig } from "../../src/config/load.ts";
import { parseToml } from "../../src/lib/text/toml.ts";

const page = readFileSync(join(resolve(import.meta.dirname, "../.."), "docs/guides/connect-clients.md"), "utf8");

/** The snippets of the page, by the heading that they stand under. */
const snippets = page.split(/^## /mu).flatMap((section) =>
  [...section.matchAll(/^```(?<format>json|toml)\n(?<code>[^]*?)^```$/gmu)].map(({ groups }) => ({
    client: section.slice(0, section.indexOf("\n")),
    format: groups?.["format"] ?? "",
    code: groups?.["code"] ?? "",
  })),
);

/** The keys under which clients keep servers, and those of their entries. */
const containers = ["mcpServers", "servers", "context_servers", "mcp_servers"];
const entryKeys = new Set(["type", "url", "serverUrl", "headers", "bearer_token_env_var", "command", "args", "env"]);

describe("the snippets for clients", () => {
  it("are there for every client that the page promises", () => {
    const clients = ["Claude Code", "Claude Desktop", "VS Code", "Cursor", "Codex", "Windsurf", "Zed"];
    expect([...new Set(snippets.map(({ client }) => client))]).toEqual(clients);
    expect(page).toMatch(/^claude mcp add --transport http \S+ \S+ --header "Authorization: Bearer \$HEADGATE_KEY"$/mu);
  });

  it.each(snippets)("for $client are read as configurations, with their credentials: $code", async (snippet) => {
    const { code, format } = snippet;
    const tree = (format === "toml" ? parseToml(code) : JSON.parse(code)) as Record<string, Record<string, object>>;
    const servers = containers.flatMap((key) => Object.entries(tree[key] ?? {}));
    expect(servers.length).toBeGreaterThan(0);
    for (const [, entry] of servers) expect(Object.keys(entry).filter((key) => !entryKeys.has(key))).toEqual([]);

    const loaded = await loadConfig({
      file: `/home/me/client.${format}`,
      env: { HEADGATE_KEY: "k3y", HEADGATE_AUTHORIZATION: "Bearer k3y", WEATHER_AUTHORIZATION: "Bearer k3y" },
      readFile: () => Promise.resolve(code),
      // The snippets lead to a gateway at the default port.
      overrides: { listen: { port: 0 } },
    });
    if (!loaded.ok) expect.fail(JSON.stringify(loaded.problems));
    const { routes } = loaded.config;
    expect(Object.keys(routes)).toEqual(servers.map(([name]) => name));
    for (const { upstream } of Object.values(routes)) {
      const credential = upstream.type === "http" ? upstream.headers["authorization"] : "Bearer by command";
      expect(credential).toMatch(/^Bearer (?:k3y|YOUR-KEY|by command)$/u);
    }
  });
});
