import { McpServer } from "@modelcontextprotocol/server";

import { registerBerths } from "./berths.ts";
import { registerTools } from "./tools.ts";

/**
 * A new demo server, a harbor: tools that show progress, streaming, elicitation and errors, a resource with a template,
 * and a prompt. It serves clients of both eras and keeps nothing between calls.
 */
export function createDemoServer(): McpServer {
  const server = new McpServer(
    { name: "headgate-demo", title: "Headgate demo harbor", version: "1.0.0" },
    {
      capabilities: { logging: {} },
      instructions:
        "A small demo harbor. Try `add`, watch progress with `count_slowly` or `tell_story`, and book a berth with `book_berth`.",
    },
  );
  registerTools(server);
  registerBerths(server);
  return server;
}
