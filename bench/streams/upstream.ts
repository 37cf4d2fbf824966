// A bare legacy MCP server over standard streams with a list of tools that changes when its tool `change` is called.
import { createInterface } from "node:readline";
import { isAsk, toolResult } from "../load/answers.ts";

const initializeResult = JSON.stringify({
  protocolVersion: "2025-11-25",
  capabilities: { tools: { listChanged: true } },
  serverInfo: { name: "bench", version: "1.0.0" },
});
let changes = 0;

createInterface({ input: process.stdin }).on("line", (line) => {
  const ask: unknown = JSON.parse(line);
  if (!isAsk(ask)) return;
  const isChange = ask.params?.name === "change";
  if (isChange) changes += 1;
  const result =
    ask.method === "initialize" ? initializeResult : ask.method === "tools/list" ? toolsResult() : toolResult;
  process.stdout.write(`{"jsonrpc":"2.0","id":${JSON.stringify(ask.id)},"result":${result}}\n`);
  if (isChange) process.stdout.write('{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n');
});

function toolsResult(): string {
  const tools = ["change", `version-${changes}`].map((name) => ({ name, inputSchema: { type: "object" } }));
  return JSON.stringify({ tools });
}
