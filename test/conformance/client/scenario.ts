import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { z } from "zod";

import { parseRevision, revisions } from "../../../src/protocol/revisions.ts";

const contextSchema = z.object({
  toolCalls: z.array(z.object({ name: z.string(), arguments: z.record(z.string(), z.unknown()) })).optional(),
});

/** How the client behaves in the scenario that the suite names in the environment. */
export async function playScenario(url: string): Promise<void> {
  const scenario = process.env["MCP_CONFORMANCE_SCENARIO"] ?? "";
  const version = process.env["MCP_CONFORMANCE_PROTOCOL_VERSION"] ?? "";
  const context = contextSchema.parse(JSON.parse(process.env["MCP_CONFORMANCE_CONTEXT"] ?? "{}"));
  await using client = await connect(url, version);
  const { tools } = await client.sdk.listTools();
  if (scenario === "json-schema-2020-12-preservation") {
    await returnSchema(client.sdk, tools);
    return;
  }
  const calls =
    context.toolCalls ?? tools.map(({ name, inputSchema }) => ({ name, arguments: exampleOf(inputSchema) }));
  // Side by side, so that the isolation of parallel calls is seen too.
  const outcomes = await Promise.allSettled(calls.map(async (call) => client.sdk.callTool(call)));
  await visitOthers(client.sdk);
  // Some scenarios refuse calls on purpose; the suite judges by what it received, and keeps what is printed here.
  for (const outcome of outcomes) if (outcome.status === "rejected") console.error(outcome.reason);
}

async function connect(url: string, version: string): Promise<{ readonly sdk: Client } & AsyncDisposable> {
  const reading = parseRevision(version);
  const isModern = reading.ok && revisions[reading.revision].era === "modern";
  const sdk = new Client(
    { name: "conformance-client", version: "1.0.0" },
    {
      capabilities: { elicitation: { form: { applyDefaults: true } }, sampling: {}, roots: {} },
      versionNegotiation: { mode: isModern ? { pin: version } : "legacy" },
    },
  );
  sdk.setRequestHandler("elicitation/create", () => ({ action: "accept", content: {} }));
  sdk.setRequestHandler("roots/list", () => ({ roots: [] }));
  sdk.setRequestHandler("sampling/createMessage", () => ({
    role: "assistant",
    model: "none",
    content: { type: "text", text: "yes" },
  }));
  await sdk.connect(new StreamableHTTPClientTransport(new URL(url)));
  return { sdk, [Symbol.asyncDispose]: async () => sdk.close() };
}

/** The scenario wants the schema back as the client received it. */
async function returnSchema(
  sdk: Client,
  tools: readonly { readonly name: string; readonly inputSchema: object }[],
): Promise<void> {
  const focal = tools.find(({ name }) => name === "json_schema_2020_12_tool");
  const echo = tools.find((tool) => tool !== focal);
  if (focal === undefined || echo === undefined) throw new Error("the server offers other tools than told");
  await sdk.callTool({ name: echo.name, arguments: { schema: focal.inputSchema } });
}

/** Asks for what else the server says it has. */
async function visitOthers(sdk: Client): Promise<void> {
  const { resources, prompts } = sdk.getServerCapabilities() ?? {};
  if (resources !== undefined) {
    for (const { uri } of (await sdk.listResources()).resources) await sdk.readResource({ uri });
  }
  if (prompts !== undefined) {
    for (const { name } of (await sdk.listPrompts()).prompts) await sdk.getPrompt({ name });
  }
}

const schemaShape = z.object({
  properties: z.record(z.string(), z.object({ type: z.string().optional() })).optional(),
});

/** Arguments that fit the types that a schema names. */
function exampleOf(schema: unknown): Record<string, unknown> {
  const reading = schemaShape.safeParse(schema);
  const properties = reading.success ? (reading.data.properties ?? {}) : {};
  return Object.fromEntries(
    Object.entries(properties).map(([name, { type }]) => [
      name,
      type === "number" || type === "integer" ? 5 : type === "boolean" ? true : "value",
    ]),
  );
}
