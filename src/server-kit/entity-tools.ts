import type { KitSettings } from "./settings.ts";
import { transportNames } from "./contract.ts";
import type { Entity } from "./entity.ts";
import { runOperation } from "./entity-operations.ts";
import { inputSchemaOf, outputSchemaOf } from "./entity-schemas.ts";
import { operations } from "./operations.ts";
import type { OperationName } from "./operations.ts";
import type { Records } from "./records.ts";
import type { JsonObject } from "./row.ts";
import type { ToolAccess, ToolEntry } from "./tool-entry.ts";
import type { z } from "zod";

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
      (operation) => allowMutations || !operations[operation].isMutation,
    ),
  };
}

/** One tool per operation of an entity (KO-007). */
export function entityTools(exposed: ExposedEntity, settings: KitSettings): readonly ToolEntry[] {
  return exposed.operations.map((operation) => entityTool(exposed, operation, settings));
}

function entityTool(exposed: ExposedEntity, operation: OperationName, settings: KitSettings): ToolEntry {
  const { entity, records, access } = exposed;
  const facts = operations[operation];
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
export function annotationsOf(operation: OperationName, title: string): ToolEntry["annotations"] {
  const { isMutation, isDestructive, isIdempotent } = operations[operation];
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
  return parsed.error.issues
    .map(({ path, message }) => `${path.map(String).join(".")}: ${message}`)
    .join("; ");
}

/** The override of an entity, whatever case its name is written in. */
function overrideOf(
  { entityOverrides }: KitSettings,
  name: string,
): KitSettings["entityOverrides"][string] | undefined {
  const wanted = name.toLowerCase();
  return Object.entries(entityOverrides).find(([key]) => key.toLowerCase() === wanted)?.[1];
}
