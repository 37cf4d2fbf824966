import type { z } from "zod";

import type { KitSettings } from "../contract/settings.ts";
import { type FieldIssue, transportNames } from "../contract/contract.ts";
import type { Entity } from "../entity/entity.ts";
import { runOperation } from "../entity/operation-handler.ts";
import { createFields, inputSchemaOf, outputSchemaOf, readObject, throwIfInvalid } from "../entity/arguments.ts";
import { type OperationName, operations as operationFacts } from "../contract/operations.ts";
import type { Records } from "../entity/records.ts";
import { isObject, type JsonObject, type JsonValue } from "../contract/row.ts";
import type { ToolAccess, ToolEntry } from "./tool-entry.ts";
import { invalidArguments } from "../contract/failure.ts";

/** An entity as the server exposes it: declaration, overrides and settings joined (KO-025). */
export interface ExposedEntity {
  readonly entity: Entity;
  readonly records: Records;
  readonly description: string;
  readonly access: ToolAccess;
  readonly operations: readonly OperationName[];
}

/** Joins what the declaration, the overrides and the settings say of an entity. */
export function exposeEntity(entity: Entity, records: Records, settings: KitSettings): ExposedEntity {
  const override = overrideOf(settings, entity.name);
  const { options } = entity;
  const allowMutations = override?.allowMutations ?? options.allowMutations;
  return {
    entity,
    records,
    description: override?.description ?? options.description ?? `${entity.name} records.`,
    access: {
      requireAuthentication:
        override?.requireAuthentication ?? options.requireAuthentication ?? settings.requireAuthentication,
      requiredScopes: override?.requiredScopes ?? options.requiredScopes,
      enabledTransports: override?.enabledTransports ?? options.enabledTransports ?? transportNames,
    },
    operations: (options.operations ?? settings.operations).filter(
      (operation) => allowMutations || !operationFacts[operation].isMutation,
    ),
  };
}

/** One tool per operation of an entity (KO-007). */
export function entityTools(exposed: ExposedEntity, settings: KitSettings): readonly ToolEntry[] {
  return exposed.operations.map((operation) => entityTool(exposed, operation, settings));
}

function entityTool(exposed: ExposedEntity, operation: OperationName, settings: KitSettings): ToolEntry {
  const { entity, records, access } = exposed;
  const facts = operationFacts[operation];
  const output = outputSchemaOf(entity, operation);
  const { maxPageSize } = settings;
  return {
    name: `${entity.options.toolPrefix}${entity.name}_${operation}`,
    title: facts.title.replace("{}", entity.name),
    description: `${facts.description.replace("{}", entity.name)} ${exposed.description}`,
    annotations: annotationsOf(operation, facts.title.replace("{}", entity.name)),
    inputSchema: entity.options.schemaOverride[operation] ?? inputSchemaOf(entity, operation, maxPageSize),
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

/** What clients are told about the effect of an operation (KO-019). */
function annotationsOf(operation: OperationName, title: string): ToolEntry["annotations"] {
  const { isMutation, isDestructive, isIdempotent } = operationFacts[operation];
  return {
    title,
    readOnlyHint: !isMutation,
    destructiveHint: isDestructive,
    idempotentHint: isIdempotent,
    openWorldHint: false,
  };
}

/** What a schema finds wrong with a result, in words for the log. */
export function describeMismatch(schema: z.ZodType, value: JsonObject): string | undefined {
  const parsed = schema.safeParse(value);
  if (parsed.success) return undefined;
  return parsed.error.issues.map(({ path, message }) => `${path.map(String).join(".")}: ${message}`).join("; ");
}

/** The override of an entity, whatever case its name is written in. */
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
export type AccessibleEntities = (entry: ToolEntry, call: Parameters<ToolEntry["run"]>[1]) => readonly string[];

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
    // Nobody is kept from the tool itself: what counts is what it reaches.
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
  const key = id === undefined ? {} : { [entity.key.name]: id as JsonValue };
  return { ...fields, ...rest, ...key };
}
