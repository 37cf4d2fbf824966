import { McpServer } from "@modelcontextprotocol/server";
import * as z from "zod";

/** An in-process server with the one tool that everybody here calls. */
export function createEchoServer(): McpServer {
  const server = new McpServer({ name: "echo", version: "1.0.0" });
  server.registerTool("echo", { inputSchema: z.object({ text: z.string() }) }, ({ text }) => ({
    content: [{ type: "text", text }],
  }));
  return server;
}
