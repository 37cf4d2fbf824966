import type { z } from "zod";

import { GatewayError } from "../../errors.ts";
import type { Principal } from "../../core/exchange.ts";
import type { TransportName } from "../contract/contract.ts";
import { defaultOf, type Field, fieldsOf } from "../contract/fields.ts";
import type { FilterOf } from "./filter.ts";
import type { OperationName } from "../contract/operations.ts";
import type { JsonObject, Row } from "../contract/row.ts";
import type { TableMapping } from "../stores/store.ts";

/** What the server puts into a generated field: a new UUID, the time of creation, the time of the last change. */
export type FieldGenerator = "uuid" | "createdAt" | "updatedAt";

type FieldName<Schema extends z.ZodObject> = keyof z.output<Schema> & string;

/** Runs around changes of records; throw a `KitFailure` to refuse one with words for the caller. */
export interface EntityHooks<Record_> {
  /** May return another record to be stored instead. */
  readonly beforeCreate?: (record: Record_, context: HookContext) => Record_ | void | Promise<Record_ | void>;
  /** Sees the record as it was and as it will be; may return another one to be stored instead. */
  readonly beforeUpdate?: (
    record: Record_,
    before: Record_,
    context: HookContext,
  ) => Record_ | void | Promise<Record_ | void>;
  readonly beforeDelete?: (record: Record_, context: HookContext) => void | Promise<void>;
  /** After the store has it; what it throws is logged and changes nothing. */
  readonly afterChange?: (
    change: { readonly operation: "create" | "update" | "delete"; readonly record: Record_ },
    context: HookContext,
  ) => void | Promise<void>;
}

/** Who makes the change. */
export interface HookContext {
  readonly principal: Principal;
  readonly signal: AbortSignal;
}

/** Everything about an entity besides its name and schema. */
export interface EntityOptions<Schema extends z.ZodObject> {
  /** Shown to clients. */
  readonly description?: string;
  /** The field that tells records apart; `id` unless told. */
  readonly key?: FieldName<Schema>;
  /** Fields the server fills in; a key in UUID form is one of them unless `client` says otherwise. */
  readonly generated?: { readonly [Name in FieldName<Schema>]?: FieldGenerator | "client" };
  /** Fields that clients see but never send. */
  readonly readOnly?: readonly FieldName<Schema>[];
  /** Fields that clients never see in any form (KO-017). */
  readonly hidden?: readonly FieldName<Schema>[];
  /** An integer field the server counts up; clients may then say which version they mean to change. */
  readonly version?: FieldName<Schema>;
  /** Fields that lists can be filtered by; all single values unless told. */
  readonly filterable?: readonly FieldName<Schema>[];
  /** Fields that lists can be sorted by; all single values unless told. */
  readonly sortable?: readonly FieldName<Schema>[];
  /** All of them are needed; compared case-sensitively (KO-003). */
  readonly requiredScopes?: readonly string[];
  /** Unset: as the server setting says (KO-004). */
  readonly requireAuthentication?: boolean;
  /** All transports unless told; the empty list exposes nothing (KO-005). */
  readonly enabledTransports?: readonly TransportName[];
  /** Whether records can be changed at all; true unless told (KO-006). */
  readonly allowMutations?: boolean;
  /** The operations; those of the server setting unless told (KO-009). */
  readonly operations?: readonly OperationName[];
  /** Stands in front of every tool name of this entity. */
  readonly toolPrefix?: string;
  /** Advertised instead of the derived input schema; what is checked stays the same. */
  readonly schemaOverride?: { readonly [Name in OperationName]?: JsonObject };
  /** Which records this principal can see; others do not exist for it (KO-015). */
  readonly visibleTo?: (principal: Principal) => FilterOf<z.output<Schema>> | undefined;
  readonly hooks?: EntityHooks<z.output<Schema>>;
  /** The table of a store that does not name things as the kit would. */
  readonly table?: TableMapping;
}

/** An entity, ready for `createServerKit`. */
export interface Entity<Schema extends z.ZodObject = z.ZodObject> {
  readonly name: string;
  readonly schema: Schema;
  readonly fields: ReadonlyMap<string, Field>;
  readonly key: Field;
  readonly generated: ReadonlyMap<string, FieldGenerator>;
  readonly readOnly: ReadonlySet<string>;
  readonly hidden: ReadonlySet<string>;
  readonly version: string | undefined;
  readonly filterable: readonly Field[];
  readonly sortable: readonly Field[];
  /** The rest of the options, without the types of the record: rows have passed the schema when they get here. */
  readonly options: ResolvedEntityOptions;
}

/** Entity options as the executor uses them. */
export interface ResolvedEntityOptions {
  readonly description: string | undefined;
  readonly requiredScopes: readonly string[];
  readonly requireAuthentication: boolean | undefined;
  readonly enabledTransports: readonly TransportName[] | undefined;
  readonly allowMutations: boolean;
  readonly operations: readonly OperationName[] | undefined;
  readonly toolPrefix: string;
  readonly schemaOverride: { readonly [Name in OperationName]?: JsonObject };
  readonly visibleTo: ((principal: Principal) => JsonObject | undefined) | undefined;
  readonly hooks: EntityHooks<Row>;
  readonly table: TableMapping | undefined;
}

/** Declares an entity; throws where options and schema contradict each other, naming both. */
export function defineEntity<Schema extends z.ZodObject>(
  name: string,
  schema: Schema,
  options: EntityOptions<Schema> = {},
): Entity<Schema> {
  if (!/^[A-Za-z][\w-]{0,50}$/u.test(name)) {
    throw invalidEntity(name, "its name must be letters, digits, _ or -, begin with a letter and be at most 51 long");
  }
  const fields = fieldsOf(name, schema);
  const named = (option: string, field: string): Field => {
    const found = fields.get(field);
    if (found === undefined) {
      throw invalidEntity(name, `option ${option} names the field ${field}, which the schema does not have`);
    }
    return found;
  };
  const key = named("key", options.key ?? "id");
  if (key.kind === "json" || key.nullable || key.optional) {
    throw invalidEntity(name, `its key ${key.name} must be a single value that is always there`);
  }
  const hidden = new Set<string>(options.hidden ?? []);
  for (const field of hidden) named("hidden", field);
  if (hidden.has(key.name)) throw invalidEntity(name, `its key ${key.name} cannot be hidden`);
  const readOnly = new Set<string>(options.readOnly ?? []);
  for (const field of readOnly) named("readOnly", field);
  const generated = generatorsOf(key, options.generated ?? {}, named);
  const version = options.version === undefined ? undefined : named("version", options.version);
  if (version !== undefined && version.kind !== "integer") {
    throw invalidEntity(name, `option version names the field ${version.name}, which is no integer`);
  }
  const entity: Entity<Schema> = {
    name,
    schema,
    fields,
    key,
    generated,
    readOnly,
    hidden,
    version: version?.name,
    filterable: chosen("filterable", options.filterable),
    sortable: chosen("sortable", options.sortable),
    options: resolveOptions(options),
  };
  for (const field of fields.values()) {
    const isServerMade = generated.has(field.name) || field.name === entity.version;
    if ((readOnly.has(field.name) || hidden.has(field.name)) && !isServerMade) requireDefault(name, field);
  }
  if (entity.version !== undefined && fields.has("expectedVersion")) {
    throw invalidEntity(name, "the field expectedVersion collides with the argument that option version adds");
  }
  return entity;

  function chosen(option: string, wanted: readonly string[] | undefined): readonly Field[] {
    const all = wanted?.map((field) => named(option, field)) ?? [...fields.values()].filter(isScalarField);
    for (const field of all) {
      if (!isScalarField(field))
        throw invalidEntity(name, `option ${option} names ${field.name}, which is no single value`);
      if (wanted !== undefined && hidden.has(field.name)) {
        throw invalidEntity(name, `option ${option} names ${field.name}, which option hidden hides`);
      }
    }
    return all.filter(({ name: field }) => !hidden.has(field));
  }
}

/** Whether clients may send the field when they create or change a record. */
export function isWritable(entity: Entity, field: string): boolean {
  return (
    !entity.generated.has(field) && !entity.readOnly.has(field) && !entity.hidden.has(field) && field !== entity.version
  );
}

/** A record as clients see it. */
export function withoutHiddenFields(entity: Entity, row: Row): Row {
  if (entity.hidden.size === 0) return row;
  return Object.fromEntries(Object.entries(row).filter(([name]) => !entity.hidden.has(name)));
}

function generatorsOf(
  key: Field,
  wanted: Readonly<Record<string, FieldGenerator | "client" | undefined>>,
  named: (option: string, field: string) => Field,
): ReadonlyMap<string, FieldGenerator> {
  const entries = Object.entries(wanted).flatMap(([field, generator]) => {
    named("generated", field);
    return generator === undefined || generator === "client" ? [] : [[field, generator] as const];
  });
  const isKeyMade = key.format === "uuid" && !(key.name in wanted);
  return new Map<string, FieldGenerator>(isKeyMade ? [[key.name, "uuid"], ...entries] : entries);
}

function requireDefault(entity: string, field: Field): void {
  if (field.optional || field.nullable || defaultOf(field) !== undefined) return;
  throw invalidEntity(entity, `clients cannot send ${field.name}, so the schema needs a default for it or .optional()`);
}

function isScalarField({ kind }: Field): boolean {
  return kind !== "json";
}

function resolveOptions<Schema extends z.ZodObject>(options: EntityOptions<Schema>): ResolvedEntityOptions {
  return {
    description: options.description,
    requiredScopes: options.requiredScopes ?? [],
    requireAuthentication: options.requireAuthentication,
    enabledTransports: options.enabledTransports,
    allowMutations: options.allowMutations ?? true,
    operations: options.operations,
    toolPrefix: options.toolPrefix ?? "",
    schemaOverride: options.schemaOverride ?? {},
    // The executor checks every row by the schema before it calls these, which is what their types ask for.
    visibleTo: options.visibleTo,
    hooks: (options.hooks ?? {}) as unknown as EntityHooks<Row>,
    table: options.table,
  };
}

function invalidEntity(entity: string, what: string): GatewayError {
  return new GatewayError("config_invalid", `entity ${entity}: ${what}`);
}
