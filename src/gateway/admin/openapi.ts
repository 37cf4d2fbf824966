import * as z from "zod";

import { apiRoot } from "./api-router.ts";
import type { Endpoint } from "./endpoint.ts";
import { endpoints } from "./endpoints/endpoints.ts";

const errorSchema = z.strictObject({
  error: z.strictObject({
    code: z.string().describe("A code of the error reference."),
    message: z.string(),
    details: z.record(z.string(), z.unknown()).optional(),
  }),
});

/** The OpenAPI 3.1 document of the admin API, made of its endpoints. */
export function openApiDocument(): unknown {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const endpoint of endpoints) {
    const path = `${apiRoot}${endpoint.path}`;
    (paths[path] ??= {})[endpoint.method.toLowerCase()] = operationOf(endpoint);
  }
  return {
    openapi: "3.1.0",
    info: { title: "Headgate admin API", version: "1" },
    paths,
    components: {
      securitySchemes: {
        token: { type: "http", scheme: "bearer", description: "The token in the gateway's data folder." },
        cookie: { type: "apiKey", in: "cookie", name: "headgate-8484", description: "The name contains the port." },
      },
      schemas: { Error: toSchema(errorSchema) },
    },
  };
}

function operationOf({ name, summary, right, pathSchema, query, body, answers }: Endpoint): unknown {
  return {
    operationId: name,
    summary,
    ...(right === "none" ? {} : { security: [{ token: [] }, { cookie: [] }], "x-right": right }),
    parameters: [...parametersOf(pathSchema, "path"), ...parametersOf(query, "query")],
    ...(body === undefined
      ? {}
      : { requestBody: { required: true, content: { "application/json": { schema: toSchema(body, "input") } } } }),
    responses: {
      "200": { description: "OK", content: contentOf(answers) },
      default: {
        description: "An error.",
        content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
      },
    },
  };
}

function contentOf(answers: Endpoint["answers"]): unknown {
  if (answers.type === "json") return { "application/json": { schema: toSchema(answers.schema) } };
  const events = Object.entries(answers.events).map(([event, schema]) => [event, toSchema(schema)]);
  return { "text/event-stream": { schema: { type: "string" }, "x-events": Object.fromEntries(events) } };
}

function parametersOf(schema: z.ZodType, place: "path" | "query"): readonly unknown[] {
  const { properties = {}, required = [] } = toSchema(schema, "input") as {
    readonly properties?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
    readonly required?: readonly string[];
  };
  return Object.entries(properties).map(([name, { description, ...rest }]) => ({
    name,
    in: place,
    required: required.includes(name),
    ...(description === undefined ? {} : { description }),
    schema: rest,
  }));
}

function toSchema(schema: z.ZodType, io: "input" | "output" = "output"): unknown {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, { io });
  return rest;
}
