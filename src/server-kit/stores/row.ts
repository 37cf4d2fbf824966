/** A value that JSON can express. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue };

/** A JSON object. */
export type JsonObject = Readonly<Record<string, JsonValue>>;

/** One record as a store keeps it: validated by the entity's schema, without `undefined`. */
export type Row = JsonObject;

/** A value that rows can be sorted and filtered by. */
export type Scalar = string | number | boolean;

/** Whether a value can be sorted and filtered by. */
export function isScalar(value: unknown): value is Scalar {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean";
}

/** Orders two scalars of the same type as every store does: text by its UTF-8 bytes, false before true. */
export function compareScalars(one: Scalar, other: Scalar): number {
  if (one === other) return 0;
  if (typeof one === "string" && typeof other === "string") {
    return Buffer.compare(Buffer.from(one), Buffer.from(other));
  }
  return one < other ? -1 : 1;
}
