import type { ToolCatalog } from "../tools/tool-catalog.ts";
import { type Failure, failureStatus, type KitCaller } from "../contract/contract.ts";
import type { Entity } from "../entity/entity.ts";
import type { Executor, ToolOutcome } from "../tools/executor.ts";
import { refuseRequest, refuseToolCall } from "./refusal.ts";
import { type OperationName, operations } from "../contract/operations.ts";
import { readJsonBody } from "./json-body.ts";
import { isObject } from "../contract/row.ts";

/** Answers REST requests by the same executor as every tool (KO-020, KO-021). */
export type RestHandler = (request: Request, caller: KitCaller, path: string) => Promise<Response>;

/** The operations behind a path that begins with `$`, with their method. */
const namedOperations: Readonly<Record<string, { readonly method: string; readonly operation: OperationName }>> = {
  $count: { method: "GET", operation: "Count" },
  $new: { method: "GET", operation: "New" },
  $createMany: { method: "POST", operation: "CreateMany" },
  $updateMany: { method: "POST", operation: "UpdateMany" },
  $deleteMany: { method: "POST", operation: "DeleteMany" },
  $deleteWhere: { method: "POST", operation: "DeleteWhere" },
};

const onCollection: Readonly<Record<string, OperationName>> = { GET: "List", POST: "Create" };
const onRecord: Readonly<Record<string, OperationName>> = {
  GET: "Get",
  PATCH: "Update",
  PUT: "Upsert",
  DELETE: "Delete",
};

/** REST over a catalogue that may be replaced between requests. */
export function createRestHandler(catalogue: () => ToolCatalog, executor: Executor): RestHandler {
  return async (request, caller, path) => {
    const current = catalogue();
    const [, name = "", last, ...rest] = path.split("/");
    const exposed = current.entities.find(({ entity }) => entity.name.toLowerCase() === name.toLowerCase());
    if (exposed === undefined || rest.length > 0) return refuseRequest("not_found");
    const { entity } = exposed;
    const method = request.method === "HEAD" ? "GET" : request.method;
    const { operation, methods } = matchOperation(method, last);
    const allowed = methods.filter((candidate) =>
      exposed.operations.includes(matchOperation(candidate, last).operation ?? "List"),
    );
    if (allowed.length === 0) return refuseRequest("not_found");
    const entry = operation === undefined ? undefined : current.operation(entity.name, operation);
    if (operation === undefined || entry === undefined) {
      return refuseRequest("method_not_allowed", { headers: { allow: allowed.join(", ") } });
    }
    const given = await readArguments(request, method, entity, last, current.settings.transport.maxRequestBytes);
    if (!given.ok) return given.response;
    const outcome = await executor.run(entry, given.value, caller);
    return toResponse(outcome, caller, operation, entity);
  };
}

function matchOperation(
  method: string,
  last: string | undefined,
): { readonly operation: OperationName | undefined; readonly methods: readonly string[] } {
  const special = last === undefined ? undefined : namedOperations[last];
  if (special !== undefined) {
    return {
      operation: special.method === method ? special.operation : undefined,
      methods: [special.method],
    };
  }
  const table = last === undefined || last === "" ? onCollection : onRecord;
  return { operation: table[method], methods: Object.keys(table) };
}

type RestArguments =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly response: Response };

/** The arguments of the tool of the same operation, out of path, query, body and `If-Match`. */
async function readArguments(
  request: Request,
  method: string,
  entity: Entity,
  last: string | undefined,
  maxBytes: number,
): Promise<RestArguments> {
  const isSpecial = last !== undefined && last in namedOperations;
  const key = last === undefined || last === "" || isSpecial ? {} : { [entity.key.name]: keyOf(entity, last) };
  if (method === "GET" && Object.keys(key).length === 0) return readQuery(new URL(request.url));
  if (method === "GET") return { ok: true, value: key };
  const match = versionOf(entity, request.headers.get("if-match"));
  if (method === "DELETE") return { ok: true, value: { ...key, ...match } };
  const body = await readJsonBody(request, maxBytes);
  if (!body.ok) return body;
  return { ok: true, value: isObject(body.value) ? { ...body.value, ...key, ...match } : body.value };
}

function readQuery({ searchParams }: URL): RestArguments {
  const members: Record<string, unknown> = {};
  for (const [name, text] of searchParams) {
    switch (name) {
      case "pageSize":
        members[name] = Number(text);
        break;
      case "includeTotal":
        members[name] = text === "true" ? true : text === "false" ? false : text;
        break;
      case "sort":
        members[name] = text.split(",");
        break;
      case "filter":
        try {
          members[name] = JSON.parse(text);
        } catch {
          members[name] = text;
        }
        break;
      default:
        members[name] = text;
    }
  }
  return { ok: true, value: members };
}

function keyOf({ key }: Entity, segment: string): unknown {
  const text = decodeSegment(segment);
  return key.kind === "integer" || key.kind === "number" ? Number(text) : text;
}

/** What is no percent-encoding is taken as it stands; no record will have it as its key. */
function decodeSegment(segment: string): string {
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

function versionOf(entity: Entity, header: string | null): Readonly<Record<string, unknown>> {
  if (entity.version === undefined || header === null || header === "*") return {};
  return { expectedVersion: Number(header.replace(/^W\//u, "").replaceAll('"', "")) };
}

function toResponse(outcome: ToolOutcome, caller: KitCaller, operation: OperationName, entity: Entity): Response {
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
      return refuseRequest("internal_error", { id: outcome.id });
    case "cancelled":
      // Nobody is there to read it.
      return new Response(null, { status: 503 });
    case "unknown":
    case "result":
      return refuseRequest("not_found");
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
