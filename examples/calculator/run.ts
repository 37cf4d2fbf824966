// An agent with a calculator in its own process: node examples/calculator/run.ts
// With ANTHROPIC_API_KEY it asks the real model; without, one that answers by script, on this machine alone.
import { AgentError, query, startOfflineApi, type OfflineScript } from "../../src/agent-kit/index.ts";
import { createCalculator } from "./calculator.ts";

const prompt = "What is 15 + 27? And what is 10 / 0?";

/** What a model would say, for runs without one. */
const script: OfflineScript = ({ index }) => {
  if (index > 0) return { text: "15 + 27 is 42. 10 / 0 has no result: division by zero." };
  return {
    text: "I will calculate.",
    toolUses: [
      { name: "mcp__calc__add", input: { a: 15, b: 27 } },
      { name: "mcp__calc__divide", input: { a: 10, b: 0 } },
    ],
  };
};

const hasKey = (process.env["ANTHROPIC_API_KEY"] ?? "") !== "";
await using open = new AsyncDisposableStack();
const api = hasKey ? undefined : open.use(await startOfflineApi(script));
console.log(hasKey ? "Asking the real model." : "No ANTHROPIC_API_KEY: the model answers by script.");

try {
  process.exitCode = (await run()) ? 0 : 1;
} catch (error) {
  if (!(error instanceof AgentError)) throw error;
  console.error(`${error.code}: ${error.message}`);
  process.exitCode = 1;
}

/** Prints the conversation; true if both calculations came out right. */
async function run(): Promise<boolean> {
  const seen: string[] = [];
  const messages = query({
    prompt,
    options: {
      mcpServers: { calc: { type: "sdk", name: "calc", instance: createCalculator() } },
      allowedTools: ["mcp__calc"],
      builtInTools: [],
      settingSources: [],
      persistSession: false,
      maxTurns: 8,
      env: { ...process.env, ...api?.env },
    },
  });
  console.log(`You:    ${prompt}`);
  let ok = false;
  for await (const message of messages) {
    if (message.type === "assistant" && message.text !== "") console.log(`Claude: ${message.text}`);
    if (message.type === "assistant" || message.type === "user") {
      for (const block of message.content) {
        if (block.type === "tool_use") console.log(`Tool:   ${block.name} ${JSON.stringify(block.input)}`);
        if (block.type !== "tool_result") continue;
        seen.push(JSON.stringify(block.content));
        console.log(`Answer: ${JSON.stringify(block.content)}${block.isError ? " (error)" : ""}`);
      }
    }
    if (message.type !== "result") continue;
    console.log(`\nResult: ${message.ok ? message.text : message.errors.join("; ")}`);
    console.log(`Cost: $${message.costUsd.toFixed(6)}`);
    console.log(`Turns: ${message.turns}`);
    ok = message.ok;
  }
  return ok && ["42", "Error: Division by zero"].every((part) => seen.some((text) => text.includes(part)));
}
