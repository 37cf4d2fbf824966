import type { KitSettings } from "../contract/settings.ts";
import { httpRefusals } from "./refusal.ts";
import type { ToolCatalog } from "../tools/tool-catalog.ts";
import { failureStatus } from "../contract/contract.ts";
import type { OperationName } from "../contract/operations.ts";
import type { JsonObject } from "../contract/row.ts";
import type { ToolEntry } from "../tools/tool-entry.ts";

/** OpenAPI paths of the document's profile, with stable operation ids and media types (KO-143). */
export function sseOpenApiPaths(settings: KitSettings): Readonly<Record<string, unknown>> {
  if (!settings.enableHttpSseTransport) return {};
  const base = settings.httpSseRoute;
  return {
    [`${base}/sse`]: {
      get: {
        operationId: "McpSseStream",
        summary: "Opens an event stream and the session that lives as long as it.",
        responses: {
          200: { description: "The stream.", content: { "text/event-stream": {} } },
          ...refusalResponses([400, 401, 403, 429, 503]),
        },
      },
    },
    [`${base}/rpc`]: {
      post: {
        operationId: "McpRpcSubmit",
        summary: "Submits a JSON-RPC message, or a batch of them, to a session.",
        parameters: [
          { name: "sessionId", in: "query", schema: { type: "string" } },
          { name: "X-Mcp-Session", in: "header", schema: { type: "string" } },
        ],
        requestBody: { required: true, content: { "application/json": {} } },
        responses: {
          202: { description: "Accepted; the reply comes on the stream." },
          ...refusalResponses([400, 401, 403, 404, 413, 415, 429, 503]),
        },
      },
    },
    ...(settings.publishCapabilityEndpoint
      ? {
          [`${base}/capabilities`]: {
            get: {
              operationId: "McpCapabilities",
              summary: "Describes the transports and the tools that the caller may call.",
              responses: {
                200: { description: "The capability document.", content: { "application/json": {} } },
                ...refusalResponses([400, 401, 403, 429, 503]),
              },
            },
          },
        }
      : {}),
  };
}

function refusalResponses(statuses: readonly number[]): Readonly<Record<string, unknown>> {
  return Object.fromEntries(
    statuses.map((status) => {
      const codes = Object.entries(httpRefusals).flatMap(([code, facts]) => (facts.status === status ? [code] : []));
      return [status, { description: codes.join(", "), content: { "application/json": {} } }];
    }),
  );
}

const restPlaces: Readonly<Record<OperationName, { readonly method: string; readonly path: string }>> = {
  List: { method: "get", path: "" },
  Create: { method: "post", path: "" },
  Get: { method: "get", path: "/{id}" },
  Update: { method: "patch", path: "/{id}" },
  Upsert: { method: "put", path: "/{id}" },
  Delete: { method: "delete", path: "/{id}" },
  Count: { method: "get", path: "/$count" },
  New: { method: "get", path: "/$new" },
  CreateMany: { method: "post", path: "/$createMany" },
  UpdateMany: { method: "post", path: "/$updateMany" },
  DeleteMany: { method: "post", path: "/$deleteMany" },
  DeleteWhere: { method: "post", path: "/$deleteWhere" },
};

/** OpenAPI paths of the REST operations, from the schemas of the tools. */
export function restOpenApiPaths(catalogue: ToolCatalog): Readonly<Record<string, unknown>> {
  const { entities, settings } = catalogue;
  const paths: Record<string, Record<string, unknown>> = {};
  if (!settings.enableRest) return paths;
  for (const { entity, operations } of entities) {
    for (const name of operations) {
      const entry = catalogue.operation(entity.name, name);
      if (entry === undefined) continue;
      const { method, path } = restPlaces[name];
      const full = `${settings.restRoute}/${entity.name}${path}`;
      paths[full] = { ...paths[full], [method]: describe(entry, name) };
    }
  }
  return paths;
}

function describe(entry: ToolEntry, operation: OperationName): JsonObject {
  const { method, path } = restPlaces[operation];
  const hasBody = method === "post" || method === "patch" || method === "put";
  const isQuery = method === "get" && path !== "/{id}";
  return {
    operationId: entry.name,
    summary: entry.title,
    description: entry.description,
    parameters: [
      ...(path === "/{id}" ? [{ name: "id", in: "path", required: true, schema: { type: "string" } }] : []),
      ...(isQuery ? queryParameters(entry) : []),
    ],
    ...(hasBody
      ? { requestBody: { required: true, content: { "application/json": { schema: entry.inputSchema } } } }
      : {}),
    responses: {
      [method === "post" && operation.startsWith("Create") ? 201 : 200]: {
        description: "Done.",
        content: { "application/json": { schema: entry.outputSchema ?? {} } },
      },
      ...Object.fromEntries(
        Object.entries(failureStatus)
          .filter(([code]) => code !== "tool_failed")
          .map(([code, status]) => [status, { description: code, content: { "application/json": {} } }]),
      ),
    },
  };
}

function queryParameters({ inputSchema }: ToolEntry): readonly JsonObject[] {
  // Every input schema of the kit is an object's with properties.
  const properties = (inputSchema["properties"] ?? {}) as Readonly<Record<string, JsonObject>>;
  return Object.entries(properties).map(([name, schema]) =>
    name === "filter"
      ? { name, in: "query", content: { "application/json": { schema } } }
      : { name, in: "query", schema, ...(name === "sort" ? { style: "form", explode: false } : {}) },
  );
}
