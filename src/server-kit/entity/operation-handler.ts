import {
  createFields,
  type FieldValues,
  type InputFields,
  maxBatchRecords,
  maxDeleteWhere,
  readFields,
  readInteger,
  readKey,
  readObject,
  throwIfInvalid,
  updateFields,
  upsertFields,
} from "./arguments.ts";
import type { FieldIssue } from "../contract/contract.ts";
import { type Entity, withoutHiddenFields } from "./entity.ts";
import { parseEntityFilter } from "./filter.ts";
import type { OperationName } from "../contract/operations.ts";
import type { ListRequest, RecordContext, Records, UpdateRequest } from "./records.ts";
import { isObject, type JsonObject, type JsonValue, type Row } from "../contract/row.ts";
import { allRows, type RowCondition, type SortKey } from "../stores/store.ts";

/** Checks the arguments of an operation and does it; the one way for tools, generic tools and REST. */
export async function runOperation(
  records: Records,
  operation: OperationName,
  given: unknown,
  caller: RecordContext,
  maxPageSize: number,
): Promise<JsonObject> {
  const { entity } = records;
  const shown = (row: Row): Row => withoutHiddenFields(entity, row);
  const issues: FieldIssue[] = [];
  switch (operation) {
    case "List": {
      const page = await records.list(readList(entity, given, maxPageSize), caller);
      // A page is made of rows; only its member `items` holds any.
      return { ...page, items: (page["items"] as readonly Row[]).map(shown) };
    }
    case "Count": {
      const members = readObject(given, ["filter"], issues);
      const where = readFilter(entity, members["filter"], issues);
      throwIfInvalid(issues);
      return { count: await records.count(where, caller) };
    }
    case "New":
      readObject(given, [], issues);
      throwIfInvalid(issues);
      return shown(records.defaults());
    case "Get": {
      const members = readObject(given, [entity.key.name], issues);
      const key = readKey(entity, members, issues);
      throwIfInvalid(issues);
      return shown(await records.get(key, caller));
    }
    case "Create": {
      const fields = readPlanned(createFields(entity), given, issues);
      throwIfInvalid(issues);
      const [row] = await records.create([fields], caller);
      return shown(row ?? {});
    }
    case "Upsert": {
      const plan = upsertFields(entity);
      const fields = readPlanned(plan, given, issues);
      throwIfInvalid(issues);
      return shown(await records.upsert(fields.get(entity.key.name) ?? null, fields, caller));
    }
    case "Update": {
      const request = readUpdate(entity, given, issues);
      throwIfInvalid(issues);
      const [row] = await records.update([request], caller);
      return shown(row ?? {});
    }
    case "Delete": {
      const request = readRemoval(entity, given, issues);
      throwIfInvalid(issues);
      await records.remove([request], caller);
      return { [entity.key.name]: request.key, deleted: true };
    }
    case "CreateMany": {
      const items = readItems(given, "items", issues);
      const plan = createFields(entity);
      const fields = items.map((item, index) => readPlanned(plan, item, issues, `items.${index}`));
      throwIfInvalid(issues);
      return { items: (await records.create(fields, caller)).map(shown) };
    }
    case "UpdateMany": {
      const items = readItems(given, "items", issues);
      const requests = items.map((item, index) => readUpdate(entity, item, issues, `items.${index}`));
      throwIfInvalid(issues);
      return { items: (await records.update(requests, caller)).map(shown) };
    }
    case "DeleteMany": {
      const ids = readItems(given, "ids", issues);
      const keys = ids.map((id, index) => readKey(entity, { [entity.key.name]: id }, issues, `ids.${index}`));
      throwIfInvalid(issues);
      await records.remove(
        keys.map((key) => ({ key, expectedVersion: undefined })),
        caller,
      );
      return { deleted: keys.length };
    }
    case "DeleteWhere": {
      const members = readObject(given, ["filter", "max"], issues);
      if (!isObject(members["filter"]) || Object.keys(members["filter"]).length === 0) {
        issues.push({
          path: "filter",
          message: "is needed; deleting everything takes a filter that says so",
        });
      }
      const where = readFilter(entity, members["filter"], issues);
      const max = readInteger(members, "max", { min: 1, max: maxDeleteWhere }, issues) ?? 100;
      throwIfInvalid(issues);
      return { deleted: await records.removeWhere(where, max, caller) };
    }
  }
}

function readList(entity: Entity, given: unknown, maxPageSize: number): ListRequest {
  const issues: FieldIssue[] = [];
  const members = readObject(given, ["pageSize", "cursor", "sort", "filter", "includeTotal"], issues);
  const { cursor, includeTotal, filter } = members;
  const pageSize = readInteger(members, "pageSize", { min: 1, max: maxPageSize }, issues);
  if (cursor !== undefined && typeof cursor !== "string") {
    issues.push({ path: "cursor", message: "expected string" });
  }
  if (includeTotal !== undefined && typeof includeTotal !== "boolean") {
    issues.push({ path: "includeTotal", message: "expected boolean" });
  }
  const where = readFilter(entity, filter, issues);
  const sort = readSort(entity, members["sort"], issues);
  throwIfInvalid(issues);
  return {
    where,
    // parseFilter has looked at all of it.
    filter: filter as JsonValue | undefined,
    sort,
    cursor: typeof cursor === "string" ? cursor : undefined,
    pageSize: pageSize ?? Math.min(50, maxPageSize),
    includeTotal: includeTotal === true,
  };
}

function readFilter(entity: Entity, filter: unknown, issues: FieldIssue[]): RowCondition {
  if (filter === undefined) return allRows;
  const parsed = parseEntityFilter(filter, entity.filterable);
  if (parsed.ok) return parsed.condition;
  issues.push(...parsed.issues);
  return allRows;
}

function readSort(entity: Entity, sort: unknown, issues: FieldIssue[]): readonly SortKey[] {
  if (sort === undefined) return [];
  if (!Array.isArray(sort) || sort.length > 3) {
    issues.push({ path: "sort", message: "expected an array of at most 3 field names" });
    return [];
  }
  return sort.map((text: unknown, index) => {
    const descending = typeof text === "string" && text.startsWith("-");
    const field = typeof text === "string" && descending ? text.slice(1) : text;
    const found = entity.sortable.find(({ name }) => name === field);
    if (found === undefined) {
      issues.push({ path: `sort.${index}`, message: "is no field that can be sorted by" });
    }
    return { field: found?.name ?? entity.key.name, descending };
  });
}

function readPlanned(plan: InputFields, given: unknown, issues: FieldIssue[], at = ""): FieldValues {
  const allowed = plan.fields.map(({ name }) => name);
  return readFields(plan, readObject(given, allowed, issues, at), issues, at);
}

function readUpdate(entity: Entity, given: unknown, issues: FieldIssue[], at = ""): UpdateRequest {
  const plan = updateFields(entity);
  const names = plan.fields.map(({ name }) => name);
  const members = readObject(given, [entity.key.name, ...names, ...versionArgument(entity)], issues, at);
  return {
    key: readKey(entity, members, issues, at),
    given: readFields(plan, members, issues, at),
    expectedVersion: readVersion(entity, members, issues, at),
  };
}

function readRemoval(entity: Entity, given: unknown, issues: FieldIssue[]): Omit<UpdateRequest, "given"> {
  const members = readObject(given, [entity.key.name, ...versionArgument(entity)], issues);
  return {
    key: readKey(entity, members, issues),
    expectedVersion: readVersion(entity, members, issues, ""),
  };
}

function readVersion(
  entity: Entity,
  members: Readonly<Record<string, unknown>>,
  issues: FieldIssue[],
  at: string,
): number | undefined {
  if (entity.version === undefined) return undefined;
  return readInteger(members, "expectedVersion", { min: 0, max: Number.MAX_SAFE_INTEGER }, issues, at);
}

function versionArgument(entity: Entity): readonly string[] {
  return entity.version === undefined ? [] : ["expectedVersion"];
}

function readItems(given: unknown, name: string, issues: FieldIssue[]): readonly unknown[] {
  const members = readObject(given, [name], issues);
  const items = members[name];
  if (Array.isArray(items) && items.length > 0 && items.length <= maxBatchRecords) return items;
  issues.push({ path: name, message: `expected an array of 1 to ${maxBatchRecords}` });
  return [];
}
