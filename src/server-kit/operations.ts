/** Every operation an entity can have; the first five are on unless told otherwise (KO-009, KO-010). */
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

/** What is known of an operation before any entity is: whether it changes something, and what clients are told. */
export interface OperationFacts {
  readonly isMutation: boolean;
  readonly isDestructive: boolean;
  readonly isIdempotent: boolean;
  /** The title, with the entity's name in place of `{}`. */
  readonly title: string;
  /** What it does, for the tool's description; `{}` is the entity's name. */
  readonly description: string;
}

function facts(
  title: string,
  description: string,
  kind: "read" | "write" | "rewrite" | "remove",
): OperationFacts {
  return {
    isMutation: kind !== "read",
    isDestructive: kind === "remove",
    isIdempotent: kind !== "write",
    title,
    description,
  };
}

/** The facts of each operation (KO-019). */
export const operations: Readonly<Record<OperationName, OperationFacts>> = {
  List: facts("List {}", "Lists {} records, page by page, with filter and sort.", "read"),
  Get: facts("Get {}", "Gets one {} record by its key.", "read"),
  Create: facts("Create {}", "Creates a {} record.", "write"),
  Update: facts("Update {}", "Changes the given fields of a {} record.", "rewrite"),
  Delete: facts("Delete {}", "Deletes a {} record.", "remove"),
  Upsert: facts("Create or replace {}", "Creates a {} record, or replaces the one with its key.", "rewrite"),
  Count: facts("Count {}", "Counts the {} records that match a filter.", "read"),
  New: facts("New {}", "Shows the defaults of a new {} record without creating it.", "read"),
  CreateMany: facts("Create many {}", "Creates several {} records, all or none.", "write"),
  UpdateMany: facts("Update many {}", "Changes several {} records, all or none.", "rewrite"),
  DeleteMany: facts("Delete many {}", "Deletes several {} records by key, all or none.", "remove"),
  DeleteWhere: facts(
    "Delete {} by filter",
    "Deletes the {} records that match a filter, up to a bound.",
    "remove",
  ),
};
