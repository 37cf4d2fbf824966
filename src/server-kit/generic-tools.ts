import { createFields, readObject, throwIfInvalid } from "./arguments.ts";
import type { FieldIssue } from "./contract.ts";
import { runOperation } from "./entity-operations.ts";
import { inputSchemaOf, outputSchemaOf } from "./entity-schemas.ts";
import type { ExposedEntity } from "./entity-tools.ts";
import { annotationsOf } from "./entity-tools.ts";
import { invalidArguments } from "./failure.ts";
import type { OperationName } from "./operations.ts";
import type { JsonObject, JsonValue } from "./row.ts";
import { isObject } from "./row.ts";
import type { KitSettings } from "./settings.ts";
import type { ToolEntry } from "./tool-entry.ts";
import { transportNames } from "./contract.ts";

interface GenericTool {
  readonly name: string;
  readonly operation: OperationName;
  readonly description: string;
  readonly members: readonly string[];
}

const genericTools: readonly GenericTool[] = [
  {
    name: "list_records",
    operation: "List",
    description: "Lists records of an entity, page by page. Call describe_entities first for its fields.",
    members: ["pageSize", "cursor", "sort", "filter", "includeTotal"],
  },
  {
    name: "get_record",
    operation: "Get",
    description: "Gets one record of an entity by its key.",
    members: ["id"],
  },
  {
    name: "create_record",
    operation: "Create",
    description: "Creates a record of an entity. Call describe_entities first for its fields.",
    members: ["fields"],
  },
  {
    name: "update_record",
    operation: "Update",
    description: "Changes the given fields of a record of an entity.",
    members: ["id", "fields", "expectedVersion"],
  },
  {
    name: "delete_record",
    operation: "Delete",
    description: "Deletes a record of an entity.",
    members: ["id", "expectedVersion"],
  },
];

const memberSchemas: JsonObject = {
  id: { type: ["string", "number"], description: "The key of the record." },
  fields: { type: "object", description: "Field names and values, as describe_entities gives them." },
  expectedVersion: { type: "integer", description: "Refuse if the record has another version." },
  pageSize: { type: "integer", minimum: 1 },
  cursor: { type: "string" },
  sort: { type: "array", items: { type: "string" } },
  filter: { type: "object" },
  includeTotal: { type: "boolean" },
};

const requiredMembers = new Set(["id", "fields"]);

/** Says which of some entities a caller may use; entities it may not use are as if they were not there. */
export type AccessibleEntities = (
  entry: ToolEntry,
  call: Parameters<ToolEntry["run"]>[1],
) => readonly string[];

/** Six tools for however many entities, so that the catalogue stays small. */
export function createGenericTools(
  exposed: readonly ExposedEntity[],
  settings: KitSettings,
  usable: AccessibleEntities,
): readonly ToolEntry[] {
  const describing = describeEntitiesTool(exposed, settings, usable);
  return [describing, ...genericTools.flatMap((tool) => toGenericTool(tool, exposed, settings, usable))];
}

function toGenericTool(
  { name, operation, description, members }: GenericTool,
  all: readonly ExposedEntity[],
  settings: KitSettings,
  usable: AccessibleEntities,
): readonly ToolEntry[] {
  const exposed = all.filter(({ operations }) => operations.includes(operation));
  if (exposed.length === 0) return [];
  const shapes = new Map(exposed.map(({ entity }) => [entity.name, outputSchemaOf(entity, operation)]));
  const inputSchemaFor = (entities: readonly string[]): JsonObject => ({
    type: "object",
    properties: {
      entity: { type: "string", enum: entities },
      ...Object.fromEntries(members.map((member) => [member, memberSchemas[member] ?? {}])),
    },
    required: ["entity", ...members.filter((member) => requiredMembers.has(member))],
    additionalProperties: false,
  });
  const entry: ToolEntry = {
    ...sharedEntry(exposed),
    name,
    title: name,
    description,
    annotations: annotationsOf(operation, name),
    inputSchema: inputSchemaFor(exposed.map(({ entity }) => entity.name)),
    inputSchemaFor,
    outputSchema: { type: "object" },
    declaredBy: `generic tool ${name}`,
    run: async (given, call) => {
      const issues: FieldIssue[] = [];
      const { entity: wanted, ...rest } = readObject(given, ["entity", ...members], issues);
      throwIfInvalid(issues);
      const found = findEntity(exposed, wanted, usable(entry, call));
      const value = await runOperation(
        found.records,
        operation,
        toArguments(found, rest),
        call.caller,
        settings.maxPageSize,
      );
      shapes.get(found.entity.name)?.schema.parse(value);
      return { kind: "data", value };
    },
  };
  return [entry];
}

function describeEntitiesTool(
  exposed: readonly ExposedEntity[],
  settings: KitSettings,
  usable: AccessibleEntities,
): ToolEntry {
  const descriptions = new Map(exposed.map((one) => [one.entity.name, describe(one)]));
  const entry: ToolEntry = {
    ...sharedEntry(exposed),
    name: "describe_entities",
    title: "describe_entities",
    description: "Describes the entities: their operations, key and fields. Call this first.",
    annotations: annotationsOf("Get", "describe_entities"),
    inputSchema: { type: "object", properties: {}, additionalProperties: false },
    outputSchema: {
      type: "object",
      properties: { entities: { type: "array", items: { type: "object" } } },
      required: ["entities"],
    },
    declaredBy: "generic tool describe_entities",
    run: async (given, call) => {
      const issues: FieldIssue[] = [];
      readObject(given, [], issues);
      throwIfInvalid(issues);
      const names = usable(entry, call);
      return { kind: "data", value: { entities: names.map((name) => descriptions.get(name) ?? {}) } };
    },
  };
  return entry;

  function describe({ entity, description, operations }: ExposedEntity): JsonObject {
    return {
      name: entity.name,
      description,
      operations,
      key: entity.key.name,
      fields: outputSchemaOf(entity, "Get").json,
      ...(operations.includes("Create")
        ? { createFields: createFields(entity).fields.map(({ name }) => name) }
        : {}),
      ...(operations.includes("List") ? { list: inputSchemaOf(entity, "List", settings.maxPageSize) } : {}),
    };
  }
}

function sharedEntry(
  exposed: readonly ExposedEntity[],
): Pick<ToolEntry, "entity" | "operation" | "access" | "entityAccess"> {
  return {
    entity: undefined,
    operation: undefined,
    // Nobody is kept from the tool itself: what counts is what it reaches.
    access: { requireAuthentication: false, requiredScopes: [], enabledTransports: transportNames },
    entityAccess: new Map(exposed.map(({ entity, access }) => [entity.name, access])),
  };
}

function findEntity(
  exposed: readonly ExposedEntity[],
  wanted: unknown,
  names: readonly string[],
): ExposedEntity {
  const found = exposed.find(({ entity }) => entity.name === wanted && names.includes(entity.name));
  if (found !== undefined) return found;
  throw invalidArguments([{ path: "entity", message: `expected one of ${names.join(", ")}` }]);
}

/** The members of a generic call as the arguments of the entity's own operation. */
function toArguments(
  { entity }: ExposedEntity,
  { id, fields, ...rest }: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  if (fields !== undefined && !isObject(fields)) {
    throw invalidArguments([{ path: "fields", message: "expected an object" }]);
  }
  const key = id === undefined ? {} : { [entity.key.name]: id as JsonValue };
  return { ...fields, ...rest, ...key };
}
