/** Every operation an entity can have; the first five are enabled by default (KO-009, KO-010). */
export const operationNames = [
  "List",
  "Get",
  "Create",
  "Update",
  "Delete",
  "Upsert",
  "Count",
  "New",
  "CreateMany",
  "UpdateMany",
  "DeleteMany",
  "DeleteWhere",
] as const;

/** One of the operations. */
export type OperationName = (typeof operationNames)[number];

/** What holds for an operation of any entity. */
export interface OperationTraits {
  readonly isMutation: boolean;
  readonly isDestructive: boolean;
  readonly isIdempotent: boolean;
  /** The tool's title; `{}` stands for the entity's name. */
  readonly title: string;
  /** The tool's description; `{}` stands for the entity's name. */
  readonly description: string;
}

function traits(title: string, description: string, kind: "read" | "write" | "rewrite" | "remove"): OperationTraits {
  return {
    isMutation: kind !== "read",
    isDestructive: kind === "remove",
    isIdempotent: kind !== "write",
    title,
    description,
  };
}

/** The traits of each operation (KO-019). */
export const operations: Readonly<Record<OperationName, OperationTraits>> = {
  List: traits("List {}", "Lists {} records, page by page, with filter and sort.", "read"),
  Get: traits("Get {}", "Gets one {} record by its key.", "read"),
  Create: traits("Create {}", "Creates a {} record.", "write"),
  Update: traits("Update {}", "Changes the given fields of a {} record.", "rewrite"),
  Delete: traits("Delete {}", "Deletes a {} record.", "remove"),
  Upsert: traits("Create or replace {}", "Creates a {} record, or replaces the one with its key.", "rewrite"),
  Count: traits("Count {}", "Counts the {} records that match a filter.", "read"),
  New: traits("New {}", "Shows the defaults of a new {} record without creating it.", "read"),
  CreateMany: traits("Create many {}", "Creates several {} records, all or none.", "write"),
  UpdateMany: traits("Update many {}", "Changes several {} records, all or none.", "rewrite"),
  DeleteMany: traits("Delete many {}", "Deletes several {} records by key, all or none.", "remove"),
  DeleteWhere: traits("Delete {} by filter", "Deletes the {} records that match a filter, up to a bound.", "remove"),
};
