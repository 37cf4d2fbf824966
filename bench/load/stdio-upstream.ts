// The same bare MCP server over standard streams, for gateways that start their servers themselves.
import { createInterface } from "node:readline";
import { initializeResultFor, isAsk, toolResult } from "./answers.ts";

createInterface({ input: process.stdin }).on("line", (line) => {
  const ask: unknown = JSON.parse(line);
  if (!isAsk(ask)) return;
  const result =
    ask.method === "initialize" ? initializeResultFor(ask) : ask.method === "tools/call" ? toolResult : "{}";
  process.stdout.write(`{"jsonrpc":"2.0","id":${JSON.stringify(ask.id)},"result":${result}}\n`);
});
