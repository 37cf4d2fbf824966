import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { endpoints } from "../../src/gateway/admin/endpoints/endpoints.ts";
import { openApiDocument } from "../../src/gateway/admin/openapi.ts";
import { openAdmin } from "../support/admin.ts";

interface Parameter {
  readonly name: string;
  readonly in: "path" | "query";
  readonly schema: Schema;
}

interface Schema {
  readonly type?: string;
  readonly enum?: readonly unknown[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
}

interface Operation {
  readonly operationId: string;
  readonly parameters: readonly Parameter[];
  readonly requestBody?: { readonly content: { readonly "application/json": { readonly schema: Schema } } };
  readonly responses: { readonly "200": { readonly content: Readonly<Record<string, unknown>> } };
}

const { paths } = openApiDocument() as {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
};
const operations = Object.entries(paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
);

const nasty = fc.oneof(
  fc.string({ unit: "binary", maxLength: 40 }),
  fc.constantFrom(
    "",
    "-1",
    "1e99",
    "NaN",
    "../..",
    "__proto__",
    "' OR 1=1 --",
    "%00",
    "tool:(",
    "\u202E",
    "a".repeat(3000),
  ),
);

/** Sometimes what the document asks for, sometimes anything. */
function valueFor({ type, enum: choices, properties, items }: Schema): fc.Arbitrary<unknown> {
  const right =
    choices !== undefined && choices.length > 0
      ? fc.constantFrom(...choices)
      : type === "object"
        ? fc.record(Object.fromEntries(Object.entries(properties ?? {}).map(([name, own]) => [name, valueFor(own)])), {
            requiredKeys: [],
          })
        : type === "array"
          ? fc.array(valueFor(items ?? {}), { maxLength: 3 })
          : type === "number" || type === "integer"
            ? fc.oneof(fc.integer(), fc.double())
            : type === "boolean"
              ? fc.boolean()
              : nasty;
  return fc.oneof({ weight: 4, arbitrary: right }, { weight: 1, arbitrary: fc.jsonValue() });
}

let admin: Awaited<ReturnType<typeof openAdmin>>;

beforeAll(async () => {
  admin = await openAdmin();
  // There is something to find.
  await using client = await admin.connect();
  await client.sdk.callTool({ name: "add", arguments: { a: 2, b: 40 } });
});

afterAll(async () => {
  await admin[Symbol.asyncDispose]();
});

describe("the admin API under input made of its own document", () => {
  it.each(operations)("never fails in $method $path", async ({ path, method, operation }) => {
    const parameters = fc.tuple(
      ...operation.parameters.map((one) => fc.tuple(fc.constant(one), fc.option(nasty, { nil: undefined }))),
    );
    const body = operation.requestBody?.content["application/json"].schema;
    const input = fc.tuple(parameters, body === undefined ? fc.constant(undefined) : valueFor(body));
    await fc.assert(
      fc.asyncProperty(input, async ([values, sent]) => {
        let target = path.replace("/api/v1", "");
        const query = new URLSearchParams();
        for (const [{ name, in: place }, value] of values) {
          if (place === "path")
            target = target.replace(`{${name}}`, encodeURIComponent((value ?? "x").toWellFormed() || "x"));
          else if (value !== undefined) query.append(name, value);
        }
        if ("text/event-stream" in operation.responses[200].content) {
          // It ends with its client.
          await using stream = await admin.stream(`${target}?${query.toString()}`);
          expect([200, 400, 404]).toContain(stream.status);
          return;
        }
        const answer = await admin.ask(`${target}?${query.toString()}`, {
          method: method.toUpperCase(),
          ...(sent === undefined
            ? {}
            : { headers: { "content-type": "application/json" }, body: JSON.stringify(sent) }),
        });
        expect({ status: answer.status, text: answer.text }).toMatchObject({
          status: expect.toSatisfy((status: number) => status < 500) as number,
        });
        if (answer.status === 200) {
          const schema = endpoints.find(({ name }) => name === operation.operationId)?.answers;
          expect(schema?.type === "json" && schema.schema.safeParse(answer.json).error).toBeUndefined();
          return;
        }
        expect(answer.json).toMatchObject({
          error: { code: expect.any(String) as string, message: expect.any(String) as string },
        });
      }),
      { numRuns: 25 },
    );
  });
});
