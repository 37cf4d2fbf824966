// A stdio server for the image: a tool that takes its time, and one that leaves a process behind.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

const answer = (id, result) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id, result })}\n`);
const text = (value) => ({ content: [{ type: "text", text: value }] });

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (method === "initialize") {
    const { protocolVersion } = params;
    answer(id, { protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "container", version: "1.0.0" } });
  } else if (method === "tools/list") {
    answer(id, { tools: ["slow", "leave"].map((name) => ({ name, inputSchema: { type: "object" } })) });
  } else if (method === "tools/call" && params.name === "slow") {
    setTimeout(() => answer(id, text("done")), 4000);
  } else if (method === "tools/call") {
    // The shell ends at once, and its child is nobody's when it ends.
    const shell = spawn("sh", ["-c", "sleep 0.5 & echo left"], { stdio: ["ignore", "pipe", "inherit"] });
    shell.stdout.once("data", () => answer(id, text("left")));
  } else if (id !== undefined) {
    answer(id, {});
  }
}
