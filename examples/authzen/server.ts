// A small MCP server on the standard streams that says itself how calls of a tool are to be decided:
// node examples/authzen/server.ts
import { McpServer } from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import * as z from "zod";

/** COAZ-MCP: who may transfer depends on the account and the amount, not on the tool. */
const transferMapping = {
  evaluation: {
    subject: { type: "identity", id: "$token.sub" },
    action: { name: "transfer" },
    resource: {
      type: "account",
      id: "$params.arguments.from",
      properties: { size: "$params.arguments.amount > 100 ? 'large' : 'small'" },
    },
  },
};

serveStdio(() => {
  const server = new McpServer({ name: "accounts", version: "1.0.0" });
  const said = (text: string) => ({ content: [{ type: "text" as const, text }] });

  server.registerTool(
    "read_account",
    { description: "Reads an account.", inputSchema: z.object({ owner: z.string() }) },
    ({ owner }) => said(`${owner} has 1200`),
  );
  server.registerTool(
    "transfer",
    {
      description: "Moves money.",
      inputSchema: z
        .object({ from: z.string(), to: z.string(), amount: z.number() })
        .meta({ "x-authzen-mapping": transferMapping }),
    },
    ({ from, to, amount }) => said(`moved ${amount} from ${from} to ${to}`),
  );
  server.registerTool(
    "close_account",
    { description: "Closes an account.", inputSchema: z.object({ owner: z.string() }) },
    ({ owner }) => said(`${owner} is closed`),
  );
  return server;
});
