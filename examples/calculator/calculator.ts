import { z } from "zod";

import { createServer, tool, type Tool } from "../../src/agent-kit/index.ts";

const operands = z.object({
  a: z.number().describe("First number"),
  b: z.number().describe("Second number"),
});
const outcome = z.object({ result: z.number() });

/** A tool for one operation on two numbers. */
function operation(name: string, description: string, compute: (a: number, b: number) => unknown): Tool {
  return tool({
    name,
    description,
    input: operands,
    output: outcome,
    annotations: { readOnlyHint: true },
    run: ({ a, b }) => compute(a, b),
  });
}

/** Makes the calculator: an MCP server that runs wherever it is connected to, here in the process of the agent. */
export function createCalculator() {
  return createServer("calculator", "1.0.0", {
    alwaysLoad: true,
    tools: [
      operation("add", "Add two numbers", (a, b) => ({ result: a + b })),
      operation("subtract", "Subtract the second number from the first", (a, b) => ({ result: a - b })),
      operation("multiply", "Multiply two numbers", (a, b) => ({ result: a * b })),
      operation("divide", "Divide the first number by the second", (a, b) =>
        b === 0 ? { isError: true, content: [{ type: "text", text: "Error: Division by zero" }] } : { result: a / b },
      ),
    ],
  });
}
