// A small MCP server on the standard streams, with something worth protecting: node examples/cel/server.ts
import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import * as z from "zod";

const person = z.object({ name: z.string(), mail: z.string(), salary: z.union([z.number(), z.string()]) });

serveStdio(() => {
  const server = new McpServer({ name: "people", version: "1.0.0" });
  const said = (text: string) => ({ content: [{ type: "text" as const, text }] });

  server.registerTool(
    "find_person",
    {
      description: "Finds a person by name.",
      inputSchema: z.object({ name: z.string() }),
      outputSchema: person,
    },
    ({ name }) => {
      const found = { name, mail: `${name.toLowerCase()}@example.com`, salary: 64_000 };
      return { ...said(JSON.stringify(found)), structuredContent: found };
    },
  );
  server.registerTool(
    "list_people",
    { description: "Lists people.", inputSchema: z.object({ limit: z.int().default(1000) }) },
    ({ limit }) => said(`the first ${limit} people`),
  );
  server.registerTool(
    "pay",
    { description: "Pays somebody.", inputSchema: z.object({ to: z.string(), amount: z.number() }) },
    ({ to, amount }) => said(`paid ${amount} to ${to}`),
  );
  server.registerTool(
    "delete_person",
    { description: "Deletes a person.", inputSchema: z.object({ name: z.string() }) },
    ({ name }) => said(`${name} is gone`),
  );
  server.registerTool("read_log", { description: "Reads the log.", inputSchema: z.object({}) }, () =>
    said("12:00 started with key AKIAIOSFODNN7EXAMPLE"),
  );
  server.registerTool("debug_dump", { description: "Dumps everything.", inputSchema: z.object({}) }, () =>
    said("everything"),
  );
  return server;
});
