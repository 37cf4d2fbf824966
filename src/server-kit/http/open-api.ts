import type { KitSettings } from "../settings.ts";
import { httpRefusals } from "./refusals.ts";

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
      const codes = Object.entries(httpRefusals).flatMap(([code, facts]) =>
        facts.status === status ? [code] : [],
      );
      return [status, { description: codes.join(", "), content: { "application/json": {} } }];
    }),
  );
}
