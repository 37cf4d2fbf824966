import { isObject } from "../../lib/is-object.ts";
import { type EntityModel, type OperationName, operationNames, operations } from "../entity/entity.ts";
import { type Failure, failureStatus } from "../entity/failure.ts";
import type { Executor, ToolOutcome } from "../tools/executor.ts";
import type { ToolCatalog } from "../tools/tool-catalog.ts";
import type { KitCaller } from "../tools/tool-entry.ts";
import { readJsonBody } from "./submission.ts";
import { httpRefusal, refuseToolCall } from "./refusal.ts";

/** Answers REST requests with the executor that runs every tool (KO-020, KO-021). */
export type RestHandler = (request: Request, caller: KitCaller, path: string) => Promise<Response>;

/** The method and path of each operation, after the entity's name. */
export const restRoutes: Readonly<Record<OperationName, { readonly method: string; readonly path: string }>> = {
  List: { method: "GET", path: "" },
  Create: { method: "POST", path: "" },
  Get: { method: "GET", path: "/{id}" },
  Update: { method: "PATCH", path: "/{id}" },
  Upsert: { method: "PUT", path: "/{id}" },
  Delete: { method: "DELETE", path: "/{id}" },
  Count: { method: "GET", path: "/$count" },
  New: { method: "GET", path: "/$new" },
  CreateMany: { method: "POST", path: "/$createMany" },
  UpdateMany: { method: "POST", path: "/$updateMany" },
  DeleteMany: { method: "POST", path: "/$deleteMany" },
  DeleteWhere: { method: "POST", path: "/$deleteWhere" },
};

const namedPaths = new Set(Object.values(restRoutes).map(({ path }) => path));

/** Creates the REST handler over a catalog that a reload may replace. */
export function createRestHandler(catalog: () => ToolCatalog, executor: Executor): RestHandler {
  return async (request, caller, path) => {
    const current = catalog();
    const [, name = "", last = "", ...rest] = path.split("/");
    const exposed = current.entities.find(({ entity }) => entity.name.toLowerCase() === name.toLowerCase());
    if (exposed === undefined || rest.length > 0) return httpRefusal("not_found");
    const { entity } = exposed;
    const isNamed = last === "" || namedPaths.has(`/${last}`);
    const route = last === "" ? "" : isNamed ? `/${last}` : "/{id}";
    const candidates = operationNames.filter(
      (candidate) => restRoutes[candidate].path === route && exposed.operations.includes(candidate),
    );
    if (candidates.length === 0) return httpRefusal("not_found");
    const method = request.method === "HEAD" ? "GET" : request.method;
    const operation = candidates.find((candidate) => restRoutes[candidate].method === method);
    const entry = operation === undefined ? undefined : current.operation(entity.name, operation);
    if (operation === undefined || entry === undefined) {
      const allow = candidates.map((candidate) => restRoutes[candidate].method).join(", ");
      return httpRefusal("method_not_allowed", { headers: { allow } });
    }
    const key = isNamed ? undefined : { [entity.key.name]: keyOf(entity, last) };
    const given = await readArguments(request, method, entity, key, current.settings.transport.maxRequestBytes);
    if (!given.ok) return given.response;
    return toResponse(await executor.run(entry, given.value, caller), caller, operation, entity);
  };
}

type RestArguments =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly response: Response };

/** The arguments of the operation, from path, query, body and `If-Match`. */
async function readArguments(
  request: Request,
  method: string,
  entity: EntityModel,
  key: Readonly<Record<string, unknown>> | undefined,
  maxBytes: number,
): Promise<RestArguments> {
  if (method === "GET") return { ok: true, value: key ?? readQuery(new URL(request.url)) };
  const version = versionOf(entity, request.headers.get("if-match"));
  if (method === "DELETE") return { ok: true, value: { ...key, ...version } };
  const body = await readJsonBody(request, maxBytes);
  if (!body.ok || !isObject(body.value)) return body;
  return { ok: true, value: { ...body.value, ...key, ...version } };
}

function readQuery({ searchParams }: URL): Readonly<Record<string, unknown>> {
  return Object.fromEntries([...searchParams].map(([name, text]) => [name, readParameter(name, text)]));
}

/** A query parameter as JSON; what does not parse is left to the validation of the arguments. */
function readParameter(name: string, text: string): unknown {
  switch (name) {
    case "pageSize":
      return Number(text);
    case "includeTotal":
      return text === "true" ? true : text === "false" ? false : text;
    case "sort":
      return text.split(",");
    case "filter":
      try {
        return JSON.parse(text);
      } catch {
        return text;
      }
    default:
      return text;
  }
}

function keyOf({ key }: EntityModel, segment: string): unknown {
  const text = decodeSegment(segment);
  if (key.kind !== "integer" && key.kind !== "number") return text;
  // One record has one path: not also `0x1`, `1.0` or `+1`. What is not a number is refused as an argument.
  return String(Number(text)) === text ? Number(text) : text;
}

/** Invalid percent-encoding is taken literally; no record has such a key. */
function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

function versionOf(entity: EntityModel, header: string | null): Readonly<Record<string, unknown>> {
  if (entity.version === undefined || header === null || header === "*") return {};
  return { expectedVersion: Number(header.replace(/^W\//u, "").replaceAll('"', "")) };
}

function toResponse(outcome: ToolOutcome, caller: KitCaller, operation: OperationName, entity: EntityModel): Response {
  switch (outcome.kind) {
    case "data": {
      const version = entity.version === undefined ? undefined : outcome.value[entity.version];
      const isCreated = operation === "Create" || operation === "CreateMany";
      return Response.json(outcome.value, {
        status: isCreated ? 201 : 200,
        headers: {
          "cache-control": operations[operation].isMutation ? "no-store" : "private, no-cache",
          ...(version === undefined ? {} : { etag: `"${JSON.stringify(version)}"` }),
        },
      });
    }
    case "failed":
      return failureResponse(outcome.failure);
    case "refused":
      return refuseToolCall(outcome.refusal, caller.resourceMetadataUrl);
    case "fault":
      return httpRefusal("internal_error", { id: outcome.id });
    case "cancelled":
      // The client has disconnected.
      return new Response(null, { status: 503 });
    case "unknown":
    case "result":
      return httpRefusal("not_found");
  }
}

function failureResponse({ code, message, issues }: Failure): Response {
  return Response.json(
    { error: code, message, ...(issues === undefined ? {} : { issues }) },
    {
      status: failureStatus[code],
      headers: { "cache-control": "no-store", ...(code === "store_failed" ? { "retry-after": "5" } : {}) },
    },
  );
}
