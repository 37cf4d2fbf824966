import type { KitSettings } from "../settings/settings.ts";
import { httpRefusals } from "./refusal.ts";
import { restRoutes } from "./rest.ts";
import type { ToolCatalog } from "../tools/tool-catalog.ts";
import { failureStatus } from "../entity/failure.ts";
import type { OperationName } from "../entity/entity.ts";
import type { JsonObject } from "../stores/store.ts";
import type { ToolEntry } from "../tools/tool-entry.ts";

/** OpenAPI paths of the HTTP+SSE profile, with stable operation ids (KO-143). */
export function sseOpenApiPaths(settings: KitSettings): Readonly<Record<string, unknown>> {
  if (!settings.enableHttpSseTransport) return {};
  const base = settings.httpSseRoute;
  return {
    [`${base}/sse`]: {
      get: {
        operationId: "McpSseStream",
        summary: "Opens an event stream; the session ends with the stream.",
        responses: {
          200: { description: "The stream.", content: { "text/event-stream": {} } },
          ...refusalResponses([400, 401, 403, 429, 503]),
        },
      },
    },
    [`${base}/rpc`]: {
      post: {
        operationId: "McpRpcSubmit",
        summary: "Submits a JSON-RPC message or batch to a session.",
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
      const codes = Object.entries(httpRefusals).flatMap(([code, refusal]) =>
        refusal.status === status ? [code] : [],
      );
      return [status, { description: codes.join(", "), content: { "application/json": {} } }];
    }),
  );
}

/** OpenAPI paths of the REST operations, from the schemas of the tools. */
export function restOpenApiPaths(catalog: ToolCatalog): Readonly<Record<string, unknown>> {
  const { entities, settings } = catalog;
  const paths: Record<string, Record<string, unknown>> = {};
  if (!settings.enableRest) return paths;
  for (const { entity, operations } of entities) {
    for (const name of operations) {
      const entry = catalog.operation(entity.name, name);
      if (entry === undefined) continue;
      const { method, path } = restRoutes[name];
      const full = `${settings.restRoute}/${entity.name}${path}`;
      paths[full] = { ...paths[full], [method.toLowerCase()]: describe(entry, name) };
    }
  }
  return paths;
}

function describe(entry: ToolEntry, operation: OperationName): JsonObject {
  const { method, path } = restRoutes[operation];
  const hasBody = method === "POST" || method === "PATCH" || method === "PUT";
  const isQuery = method === "GET" && path !== "/{id}";
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
      [method === "POST" && operation.startsWith("Create") ? 201 : 200]: {
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
  // Every input schema of the kit describes an object.
  const properties = (inputSchema["properties"] ?? {}) as Readonly<Record<string, JsonObject>>;
  return Object.entries(properties).map(([name, schema]) =>
    name === "filter"
      ? { name, in: "query", content: { "application/json": { schema } } }
      : { name, in: "query", schema, ...(name === "sort" ? { style: "form", explode: false } : {}) },
  );
}
