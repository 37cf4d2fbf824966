import { McpServer } from "@modelcontextprotocol/server";
import { z } from "zod";

/** What a small server offers. */
export interface ToolServerOptions {
  readonly name: string;
  readonly tools?: readonly string[];
  readonly prompts?: readonly string[];
  /** URIs. */
  readonly resources?: readonly string[];
}

/** A server of the SDK whose tools, prompts and resources say which server they are of, and with what they were called. */
export function createToolServer({ name, tools = [], prompts = [], resources = [] }: ToolServerOptions): McpServer {
  const server = new McpServer({ name, version: "1.0.0" }, { instructions: `This is ${name}.` });
  for (const tool of tools) {
    server.registerTool(
      tool,
      { description: `${tool} of ${name}`, inputSchema: z.looseObject({ path: z.string().optional() }) },
      (args) => ({ content: [{ type: "text", text: `${name}.${tool} ${JSON.stringify(args)}` }] }),
    );
  }
  for (const prompt of prompts) {
    server.registerPrompt(prompt, { description: `${prompt} of ${name}` }, () => ({
      messages: [{ role: "user", content: { type: "text", text: `${name}.${prompt}` } }],
    }));
  }
  for (const uri of resources) {
    server.registerResource(uri, uri, {}, ({ href }) => ({ contents: [{ uri: href, text: `${name} ${href}` }] }));
  }
  return server;
}
