// A small MCP server on the standard streams, with something worth protecting: node examples/pingauthorize/server.ts
import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import * as z from "zod";

serveStdio(() => {
  const server = new McpServer({ name: "accounts", version: "1.0.0" });
  const said = (text: string) => ({ content: [{ type: "text" as const, text }] });

  server.registerTool(
    "read_account",
    { description: "Reads an account.", inputSchema: z.object({ owner: z.string() }) },
    ({ owner }) => said(`${owner} has 1200 and the PIN 4711`),
  );
  server.registerTool(
    "transfer",
    { description: "Moves money.", inputSchema: z.object({ to: z.string(), amount: z.number() }) },
    ({ to, amount }) => said(`moved ${amount} to ${to}`),
  );
  server.registerTool(
    "close_account",
    { description: "Closes an account.", inputSchema: z.object({ owner: z.string() }) },
    ({ owner }) => said(`${owner} is closed`),
  );
  return server;
});
