// A stdio server as most are: the official SDK, and a tool.
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";

const server = new McpServer({ name: "cold", version: "1.0.0" });
server.registerTool("echo", { description: "Says hello." }, () => ({ content: [{ type: "text", text: "hello" }] }));
await server.connect(new StdioServerTransport());
