import {
  allRows,
  type JsonObject,
  type JsonValue,
  type Row,
  type RowCondition,
  type SortKey,
} from "../stores/store.ts";
import {
  createFields,
  type FieldValues,
  type InputFields,
  maxBatchRecords,
  maxDeleteWhere,
  readArguments,
  readFields,
  readInteger,
  readKey,
  readObject,
  updateFields,
  upsertFields,
} from "./arguments.ts";
import { type EntityModel, type OperationName, withoutHiddenFields } from "./entity.ts";
import type { FieldIssue } from "./failure.ts";
import { parseEntityFilter } from "./filter.ts";
import type { ListRequest, RecordContext, Records, UpdateRequest } from "./records.ts";

/** Validates the arguments of an operation and runs it, for tools, generic tools and REST alike. */
export async function runOperation(
  records: Records,
  operation: OperationName,
  given: unknown,
  caller: RecordContext,
  maxPageSize: number,
): Promise<JsonObject> {
  const { entity } = records;
  const shown = (row: Row): Row => withoutHiddenFields(entity, row);
  switch (operation) {
    case "List": {
      const page = await records.list(readList(entity, given, maxPageSize), caller);
      return { ...page, items: page.items.map(shown) };
    }
    case "Count": {
      const where = readArguments((issues) =>
        readFilter(entity, readObject(given, ["filter"], issues)["filter"], issues),
      );
      return { count: await records.count(where, caller) };
    }
    case "New":
      readArguments((issues) => readObject(given, [], issues));
      return shown(records.defaults());
    case "Get": {
      const { key } = entity;
      const wanted = readArguments((issues) => readKey(entity, readObject(given, [key.name], issues), issues));
      return shown(await records.get(wanted, caller));
    }
    case "Create": {
      const values = readArguments((issues) => readValues(createFields(entity), given, issues));
      const [row] = await records.create([values], caller);
      return shown(row ?? {});
    }
    case "Upsert": {
      const values = readArguments((issues) => readValues(upsertFields(entity), given, issues));
      return shown(await records.upsert(values.get(entity.key.name) ?? null, values, caller));
    }
    case "Update": {
      const request = readArguments((issues) => readUpdate(entity, given, issues));
      const [row] = await records.update([request], caller);
      return shown(row ?? {});
    }
    case "Delete": {
      const request = readArguments((issues) => readRemoval(entity, given, issues));
      await records.remove([request], caller);
      return { [entity.key.name]: request.key, deleted: true };
    }
    case "CreateMany": {
      const values = readArguments((issues) =>
        readItems(given, "items", issues, (item, at) => readValues(createFields(entity), item, issues, at)),
      );
      return { items: (await records.create(values, caller)).map(shown) };
    }
    case "UpdateMany": {
      const requests = readArguments((issues) =>
        each(
          readItems(given, "items", issues, (item, at) => readUpdate(entity, item, issues, at)),
          "items",
          issues,
        ),
      );
      return { items: (await records.update(requests, caller)).map(shown) };
    }
    case "DeleteMany": {
      const requests = readArguments((issues) =>
        each(
          readItems(given, "ids", issues, (id, at) => ({
            key: readKey(entity, { [entity.key.name]: id }, issues, at),
            expectedVersion: undefined,
          })),
          "ids",
          issues,
        ),
      );
      await records.remove(requests, caller);
      return { deleted: requests.length };
    }
    case "DeleteWhere": {
      const { where, max } = readArguments((issues) => readDeleteWhere(entity, given, issues));
      return { deleted: await records.removeWhere(where, max, caller) };
    }
  }
}

function readList(entity: EntityModel, given: unknown, maxPageSize: number): ListRequest {
  return readArguments((issues) => {
    const members = readObject(given, ["pageSize", "cursor", "sort", "filter", "includeTotal"], issues);
    const { cursor, includeTotal, filter } = members;
    if (cursor !== undefined && typeof cursor !== "string") issues.push({ path: "cursor", message: "expected string" });
    if (includeTotal !== undefined && typeof includeTotal !== "boolean") {
      issues.push({ path: "includeTotal", message: "expected boolean" });
    }
    const pageSize = readInteger(members, "pageSize", { min: 1, max: maxPageSize }, issues);
    return {
      where: readFilter(entity, filter, issues),
      // The filter was parsed, so it is JSON.
      filter: filter as JsonValue | undefined,
      sort: readSort(entity, members["sort"], issues),
      cursor: typeof cursor === "string" ? cursor : undefined,
      pageSize: pageSize ?? Math.min(50, maxPageSize),
      includeTotal: includeTotal === true,
    };
  });
}

function readFilter(entity: EntityModel, filter: unknown, issues: FieldIssue[]): RowCondition {
  if (filter === undefined) return allRows;
  const parsed = parseEntityFilter(filter, entity.filterable);
  if (parsed.ok) return parsed.condition;
  issues.push(...parsed.issues);
  return allRows;
}

function readDeleteWhere(
  entity: EntityModel,
  given: unknown,
  issues: FieldIssue[],
): { readonly where: RowCondition; readonly max: number } {
  const members = readObject(given, ["filter", "max"], issues);
  const parsed = parseEntityFilter(members["filter"] ?? {}, entity.filterable);
  if (!parsed.ok) issues.push(...parsed.issues);
  else if (parsed.tests === 0) issues.push({ path: "filter", message: "is required and must test a field" });
  return {
    where: parsed.ok ? parsed.condition : allRows,
    max: readInteger(members, "max", { min: 1, max: maxDeleteWhere }, issues) ?? 100,
  };
}

function readSort(entity: EntityModel, sort: unknown, issues: FieldIssue[]): readonly SortKey[] {
  if (sort === undefined) return [];
  if (!Array.isArray(sort) || sort.length > 3) {
    issues.push({ path: "sort", message: "expected an array of at most 3 field names" });
    return [];
  }
  return sort.map((text: unknown, index) => {
    const descending = typeof text === "string" && text.startsWith("-");
    const field = typeof text === "string" && descending ? text.slice(1) : text;
    const found = entity.sortable.find(({ name }) => name === field);
    if (found === undefined) issues.push({ path: `sort.${index}`, message: "not a sortable field" });
    return { field: found?.name ?? entity.key.name, descending };
  });
}

function readValues(input: InputFields, given: unknown, issues: FieldIssue[], at = ""): FieldValues {
  const allowed = input.fields.map(({ name }) => name);
  return readFields(input, readObject(given, allowed, issues, at), issues, at);
}

function readUpdate(entity: EntityModel, given: unknown, issues: FieldIssue[], at = ""): UpdateRequest {
  const input = updateFields(entity);
  const allowed = [entity.key.name, ...input.fields.map(({ name }) => name), ...versionArgument(entity)];
  const members = readObject(given, allowed, issues, at);
  return {
    key: readKey(entity, members, issues, at),
    given: readFields(input, members, issues, at),
    expectedVersion: readVersion(entity, members, issues, at),
  };
}

function readRemoval(entity: EntityModel, given: unknown, issues: FieldIssue[]): Omit<UpdateRequest, "given"> {
  const members = readObject(given, [entity.key.name, ...versionArgument(entity)], issues);
  return { key: readKey(entity, members, issues), expectedVersion: readVersion(entity, members, issues, "") };
}

function readVersion(
  entity: EntityModel,
  members: Readonly<Record<string, unknown>>,
  issues: FieldIssue[],
  at: string,
): number | undefined {
  if (entity.version === undefined) return undefined;
  return readInteger(members, "expectedVersion", { min: 0, max: Number.MAX_SAFE_INTEGER }, issues, at);
}

function versionArgument(entity: EntityModel): readonly string[] {
  return entity.version === undefined ? [] : ["expectedVersion"];
}

function readItems<Item>(
  given: unknown,
  name: string,
  issues: FieldIssue[],
  read: (item: unknown, at: string) => Item,
): readonly Item[] {
  const items = readObject(given, [name], issues)[name];
  if (Array.isArray(items) && items.length > 0 && items.length <= maxBatchRecords) {
    return items.map((item: unknown, index) => read(item, `${name}.${index}`));
  }
  issues.push({ path: name, message: `expected an array of 1 to ${maxBatchRecords}` });
  return [];
}

/** The changes of several records, each of which may be named once. */
function each<Item extends { readonly key: JsonValue }>(
  items: readonly Item[],
  name: string,
  issues: FieldIssue[],
): readonly Item[] {
  const seen = new Set<JsonValue>();
  for (const [index, { key }] of items.entries()) {
    if (seen.has(key) && key !== null)
      issues.push({ path: `${name}.${index}`, message: "names the same record again" });
    seen.add(key);
  }
  return items;
}
