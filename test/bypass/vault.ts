import { McpServer } from "@modelcontextprotocol/server";

/** What everybody may use, and what nobody may. */
export const open = { tool: "status", prompt: "hint", resource: "vault://status" } as const;
export const closed = { tool: "open_vault", prompt: "vault_code", resource: "vault://secret" } as const;

/**
 * Closed resources of the schemes that URL parsers normalise. The SDK looks resources up by what the parser makes of a URI,
 * so each of them has many spellings.
 */
export const closedUris = [
  "file:///vault/secret.txt",
  "file:///vault/caf%C3%A9%20menu",
  "https://vault.example/secret",
  "http://127.0.0.1/secret",
  "wss://vault.example:8443/secret?key=1",
] as const;

/** A server with one open and one closed thing of each kind; it tells whenever a closed one is used. */
export function createVault(used: (what: string) => void): McpServer {
  const server = new McpServer(
    { name: "vault", version: "1.0.0" },
    { capabilities: { tools: {}, prompts: {}, resources: { subscribe: true }, completions: {} } },
  );
  const text = (said: string) => ({ content: [{ type: "text" as const, text: said }] });
  server.registerTool(open.tool, { description: "Says whether the vault is shut" }, () => text("shut"));
  server.registerTool(closed.tool, { description: "Opens the vault" }, () => {
    used(closed.tool);
    return text("the gold is yours");
  });
  const prompt = (said: string) => ({
    messages: [{ role: "user" as const, content: { type: "text" as const, text: said } }],
  });
  server.registerPrompt(open.prompt, { description: "A hint" }, () => prompt("try another door"));
  server.registerPrompt(closed.prompt, { description: "The code" }, () => {
    used(closed.prompt);
    return prompt("1234");
  });
  server.registerResource("status", open.resource, {}, ({ href }) => ({
    contents: [{ uri: href, text: "shut" }],
  }));
  server.registerResource("secret", closed.resource, {}, ({ href }) => {
    used(closed.resource);
    return { contents: [{ uri: href, text: "gold" }] };
  });
  for (const uri of closedUris) {
    server.registerResource(uri, uri, {}, ({ href }) => {
      used(uri);
      return { contents: [{ uri: href, text: "gold" }] };
    });
  }
  server.server.setRequestHandler("resources/subscribe", ({ params }) => {
    if (params.uri !== open.resource) used(`subscription to ${params.uri}`);
    return {};
  });
  return server;
}
