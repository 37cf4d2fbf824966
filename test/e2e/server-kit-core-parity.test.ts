import { fileURLToPath } from "node:url";

import {
  Client,
  SSEClientTransport,
  StreamableHTTPClientTransport,
  type Transport,
} from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { describe, expect, it } from "vitest";

import { FetchClient } from "../../examples/clients/typescript/fetch-client.ts";
import { type OperationName, operationNames } from "../../src/server-kit/entity/entity.ts";
import { listen, type ListeningServer } from "../../src/server-kit/index.ts";
import { createParityKit } from "../fixtures/server-kit/parity-kit.ts";

interface Step {
  readonly entity?: string;
  readonly operation: OperationName;
  readonly given: Readonly<Record<string, unknown>>;
}

/** What one call came to, in a form that REST and tools share: data, or the words of a failure. */
type Outcome = { readonly data: unknown } | { readonly failure: string } | { readonly refused: string };

type Call = (step: Step) => Promise<Outcome>;

const second = { id: "b", name: "Bergen", size: 3 };

/** Every operation, with input that is right, wrong, and about what is not there or not allowed. */
const steps: readonly Step[] = [
  { operation: "New", given: {} },
  { operation: "Create", given: { id: "a", name: "Åsgård", openedAt: "2026-02-03T04:05:06Z" } },
  { operation: "Create", given: { id: "a", name: "Again" } },
  { operation: "Create", given: { id: "x", name: "N", size: "big", secret: "y" } },
  { operation: "CreateMany", given: { items: [second, { id: "c", name: "Cork", note: "n" }] } },
  { operation: "CreateMany", given: { items: [] } },
  { operation: "List", given: {} },
  { operation: "List", given: { pageSize: 1, sort: ["-size", "name"], includeTotal: true } },
  {
    operation: "List",
    given: { filter: { or: [{ name: { startsWith: "B" } }, { note: { isNull: false } }] } },
  },
  { operation: "List", given: { pageSize: 500, page: 2 } },
  { operation: "List", given: { cursor: "forged" } },
  { operation: "Get", given: { id: "a" } },
  { operation: "Get", given: { id: "none" } },
  { operation: "Update", given: { id: "a", size: 7, expectedVersion: 1 } },
  { operation: "Update", given: { id: "a", size: 8, expectedVersion: 1 } },
  { operation: "Update", given: { id: "a", size: 1.5 } },
  {
    operation: "UpdateMany",
    given: {
      items: [
        { id: "b", note: "x" },
        { id: "c", note: null },
      ],
    },
  },
  { operation: "Upsert", given: { id: "d", name: "Delft" } },
  { operation: "Upsert", given: { id: "d", name: "Dublin", note: "again" } },
  { operation: "Count", given: { filter: { size: { gte: 3 } } } },
  { operation: "Delete", given: { id: "d", expectedVersion: 9 } },
  { operation: "Delete", given: { id: "d" } },
  { operation: "Delete", given: { id: "d" } },
  { operation: "DeleteMany", given: { ids: ["b", "none"] } },
  { operation: "DeleteMany", given: { ids: ["b"] } },
  { operation: "DeleteWhere", given: { filter: {} } },
  { operation: "DeleteWhere", given: { filter: { id: "c" } } },
  { operation: "List", given: {} },
  { entity: "Closed", operation: "List", given: {} },
];

const onRecord = new Set<OperationName>(["Get", "Update", "Upsert", "Delete"]);
const places: Readonly<Partial<Record<OperationName, string>>> = {
  List: "",
  Count: "/$count",
  New: "/$new",
  Create: "",
  CreateMany: "/$createMany",
  UpdateMany: "/$updateMany",
  DeleteMany: "/$deleteMany",
  DeleteWhere: "/$deleteWhere",
};
const methods: Readonly<Partial<Record<OperationName, string>>> = {
  List: "GET",
  Count: "GET",
  New: "GET",
  Get: "GET",
  Update: "PATCH",
  Upsert: "PUT",
  Delete: "DELETE",
};

function restCall(origin: string): Call {
  return async ({ entity = "Site", operation, given }) => {
    const { id, expectedVersion, ...members } = given;
    const method = methods[operation] ?? "POST";
    const path = onRecord.has(operation) ? `/${String(id)}` : (places[operation] ?? "");
    const query = method === "GET" && !onRecord.has(operation) ? `?${queryOf(members)}` : "";
    const body = onRecord.has(operation) ? members : given;
    const hasBody = method !== "GET" && method !== "DELETE";
    const response = await fetch(`${origin}/api/${entity}${path}${query}`, {
      method,
      headers: {
        ...(hasBody ? { "content-type": "application/json" } : {}),
        ...(expectedVersion === undefined ? {} : { "if-match": `"${JSON.stringify(expectedVersion)}"` }),
      },
      ...(hasBody ? { body: JSON.stringify(body) } : {}),
    });
    const answer = (await response.json()) as { readonly error?: string; readonly message?: string };
    if (response.ok) return { data: answer };
    return response.status === 401 ? { refused: answer.message ?? "" } : { failure: answer.message ?? "" };
  };
}

function queryOf(members: Readonly<Record<string, unknown>>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(members)) query.set(name, queryText(value));
  return query.toString();
}

function queryText(value: unknown): string {
  if (Array.isArray(value)) return value.join(",");
  return typeof value === "string" ? value : JSON.stringify(value);
}

async function clientCall(
  transport: Transport,
  mode: "legacy" | "auto" = "legacy",
): Promise<{ call: Call; close: () => Promise<void> }> {
  const client = new Client({ name: "parity", version: "1.0.0" }, { versionNegotiation: { mode } });
  await client.connect(transport);
  const call: Call = async ({ entity = "Site", operation, given }) => {
    try {
      const result = await client.callTool({ name: `${entity}_${operation}`, arguments: given });
      const [block] = result.content;
      const text = block?.type === "text" ? block.text : "";
      if (result.isError === true) return { failure: text };
      expect(JSON.parse(text)).toEqual(result.structuredContent);
      return { data: result.structuredContent };
    } catch (error) {
      return { refused: error instanceof Error ? error.message : String(error) };
    }
  };
  return { call, close: async () => client.close() };
}

async function outcomesOf(call: Call): Promise<readonly Outcome[]> {
  const outcomes: Outcome[] = [];
  for (const step of steps) outcomes.push(await call(step));
  return outcomes;
}

async function onFreshServer(
  work: (listening: ListeningServer) => Promise<readonly Outcome[]>,
): Promise<readonly Outcome[]> {
  const kit = await createParityKit();
  await using listening = await listen(kit, { port: 0 });
  return await work(listening);
}

async function overRest(): Promise<readonly Outcome[]> {
  return onFreshServer(async ({ url }) => outcomesOf(restCall(url)));
}

/** A call that needs a login is refused before MCP on Streamable HTTP, so only that it is refused can be the same. */
function withoutRefusalWords(outcomes: readonly Outcome[]): readonly Outcome[] {
  return outcomes.map((outcome) => ("refused" in outcome ? { refused: "" } : outcome));
}

async function over(
  connect: (url: string) => Promise<{ call: Call; close: () => Promise<void> }>,
): Promise<readonly Outcome[]> {
  return onFreshServer(async ({ url }) => {
    const { call, close } = await connect(url);
    const outcomes = await outcomesOf(call);
    await close();
    return outcomes;
  });
}

describe("the same calls give the same answers", () => {
  it("[KO-130] cover every operation", () => {
    expect(new Set(steps.map(({ operation }) => operation))).toEqual(new Set(operationNames));
  });

  it.each([
    [
      "Streamable HTTP 2025-11-25",
      async (url: string) => clientCall(new StreamableHTTPClientTransport(new URL(`${url}/mcp`))),
    ],
    [
      "Streamable HTTP 2026-07-28",
      async (url: string) => clientCall(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)), "auto"),
    ],
    ["the standard SSE client", async (url: string) => clientCall(new SSEClientTransport(new URL(`${url}/mcp/sse`)))],
  ])("[KO-020] [KO-021] [KO-130] over REST and %s", async (_, connect) => {
    expect(withoutRefusalWords(await over(connect))).toEqual(withoutRefusalWords(await overRest()));
  });

  it("[KO-020] [KO-021] [KO-022] [KO-130] over REST and the document's profile", async () => {
    const seed = await onFreshServer(async ({ url }) => {
      const client = new FetchClient(`${url}/mcp`);
      const outcomes = await outcomesOf(async ({ entity = "Site", operation, given }) => {
        try {
          const result = (await client.request("tools/call", {
            name: `${entity}_${operation}`,
            arguments: given,
          })) as { isError?: boolean; structuredContent?: unknown; content: readonly { text: string }[] };
          if (result.isError === true) return { failure: result.content[0]?.text ?? "" };
          return { data: result.structuredContent };
        } catch (error) {
          return { refused: error instanceof Error ? error.message : String(error) };
        }
      });
      client.close();
      return outcomes;
    });
    expect(seed).toEqual(await overRest());
  });

  it("[KO-020] [KO-021] [KO-130] [KO-138] over REST and stdio, in a process of its own", async () => {
    const script = fileURLToPath(import.meta.resolve("../fixtures/server-kit/parity-stdio.ts"));
    const { call, close } = await clientCall(new StdioClientTransport({ command: process.execPath, args: [script] }));
    const outcomes = await outcomesOf(call);
    await close();
    // The local user is known and lacks the scope, where REST's caller is nobody: both are refused.
    expect(outcomes.at(-1)).toEqual({
      refused: expect.stringContaining("this tool needs the scope closed:read"),
    });
    expect(withoutRefusalWords(outcomes)).toEqual(withoutRefusalWords(await overRest()));
  });
});
