import { isObject } from "../../lib/is-object.ts";
import { createFields, inputSchemaOf, outputSchemaOf, readArguments, readObject } from "../entity/arguments.ts";
import {
  type EntityModel,
  type OperationName,
  operations as operationTraits,
  transportNames,
} from "../entity/entity.ts";
import { invalidArguments } from "../entity/failure.ts";
import { runOperation } from "../entity/operation-handler.ts";
import type { Records } from "../entity/records.ts";
import type { KitSettings } from "../settings/settings.ts";
import type { JsonObject } from "../stores/store.ts";
import { accessibleEntities } from "./executor.ts";
import { describeMismatch, type ToolAccess, type ToolEntry } from "./tool-entry.ts";

/** An entity as the server exposes it: declaration, overrides and settings merged (KO-025). */
export interface ExposedEntity {
  readonly entity: EntityModel;
  readonly records: Records;
  readonly description: string;
  readonly access: ToolAccess;
  readonly operations: readonly OperationName[];
}

/** Merges declaration, overrides and settings of an entity. */
export function exposeEntity(records: Records, settings: KitSettings): ExposedEntity {
  const { entity } = records;
  const override = overrideOf(settings, entity.name);
  const { options } = entity;
  const allowMutations = override?.allowMutations ?? options.allowMutations ?? true;
  return {
    entity,
    records,
    description: override?.description ?? options.description ?? `${entity.name} records.`,
    access: {
      requireAuthentication:
        override?.requireAuthentication ?? options.requireAuthentication ?? settings.requireAuthentication,
      requiredScopes: override?.requiredScopes ?? options.requiredScopes ?? [],
      enabledTransports: override?.enabledTransports ?? options.enabledTransports ?? transportNames,
    },
    operations: (options.operations ?? settings.operations).filter(
      (operation) => allowMutations || !operationTraits[operation].isMutation,
    ),
  };
}

/** One tool per operation of an entity (KO-007). */
export function entityTools(exposed: ExposedEntity, settings: KitSettings): readonly ToolEntry[] {
  return exposed.operations.map((operation) => entityTool(exposed, operation, settings));
}

function entityTool(exposed: ExposedEntity, operation: OperationName, settings: KitSettings): ToolEntry {
  const { entity, records, access } = exposed;
  const traits = operationTraits[operation];
  const output = outputSchemaOf(entity, operation);
  const { maxPageSize } = settings;
  return {
    name: `${entity.options.toolPrefix ?? ""}${entity.name}_${operation}`,
    title: traits.title.replace("{}", entity.name),
    description: `${traits.description.replace("{}", entity.name)} ${exposed.description}`,
    annotations: annotationsOf(operation, traits.title.replace("{}", entity.name)),
    inputSchema: entity.options.schemaOverride?.[operation] ?? inputSchemaOf(entity, operation, maxPageSize),
    outputSchema: output.json,
    declaredBy: `operation ${operation} of entity ${entity.name}`,
    entity: entity.name,
    operation,
    access,
    run: async (given, { caller }) => ({
      kind: "data",
      value: await runOperation(records, operation, given, caller, maxPageSize),
    }),
    checkOutput: (value) => describeMismatch(output.schema, value),
  };
}

/** The annotations that describe the effect of an operation (KO-019). */
function annotationsOf(operation: OperationName, title: string): ToolEntry["annotations"] {
  const { isMutation, isDestructive, isIdempotent } = operationTraits[operation];
  return {
    title,
    readOnlyHint: !isMutation,
    destructiveHint: isDestructive,
    idempotentHint: isIdempotent,
    openWorldHint: false,
  };
}

/** The override of an entity; names are case-insensitive. */
function overrideOf(
  { entityOverrides }: KitSettings,
  name: string,
): KitSettings["entityOverrides"][string] | undefined {
  const wanted = name.toLowerCase();
  return Object.entries(entityOverrides).find(([key]) => key.toLowerCase() === wanted)?.[1];
}

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
  { name: "get_record", operation: "Get", description: "Gets one record of an entity by its key.", members: ["id"] },
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

/** Six tools for any number of entities, to keep the tool list short. */
export function createGenericTools(exposed: readonly ExposedEntity[], settings: KitSettings): readonly ToolEntry[] {
  const describing = describeEntitiesTool(exposed, settings);
  return [describing, ...genericTools.flatMap((tool) => toGenericTool(tool, exposed, settings))];
}

function toGenericTool(
  { name, operation, description, members }: GenericTool,
  all: readonly ExposedEntity[],
  settings: KitSettings,
): readonly ToolEntry[] {
  const exposed = all.filter(({ operations }) => operations.includes(operation));
  if (exposed.length === 0) return [];
  const outputs = new Map(exposed.map(({ entity }) => [entity.name, outputSchemaOf(entity, operation)]));
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
    run: async (given, { caller }) => {
      const { entity: wanted, ...rest } = readArguments((issues) => readObject(given, ["entity", ...members], issues));
      const found = findEntity(exposed, wanted, accessibleEntities(entry, caller, settings));
      const value = await runOperation(
        found.records,
        operation,
        toArguments(found, rest),
        caller,
        settings.maxPageSize,
      );
      outputs.get(found.entity.name)?.schema.parse(value);
      return { kind: "data", value };
    },
  };
  return [entry];
}

function describeEntitiesTool(exposed: readonly ExposedEntity[], settings: KitSettings): ToolEntry {
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
    run: async (given, { caller }) => {
      readArguments((issues) => readObject(given, [], issues));
      const names = accessibleEntities(entry, caller, settings);
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
      ...(operations.includes("Create") ? { createFields: createFields(entity).fields.map(({ name }) => name) } : {}),
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
    // Anyone may call the tool itself; the rules of the entities decide.
    access: { requireAuthentication: false, requiredScopes: [], enabledTransports: transportNames },
    entityAccess: new Map(exposed.map(({ entity, access }) => [entity.name, access])),
  };
}

function findEntity(exposed: readonly ExposedEntity[], wanted: unknown, names: readonly string[]): ExposedEntity {
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
  const key = id === undefined ? {} : { [entity.key.name]: id };
  return { ...fields, ...rest, ...key };
}
