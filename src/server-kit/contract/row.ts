/** A value that JSON can say. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | { readonly [key: string]: JsonValue };

/** A JSON object. */
export type JsonObject = Readonly<Record<string, JsonValue>>;

/** One record as stores keep it: checked by the entity's schema, never holding `undefined`. */
export type Row = JsonObject;

/** A value that can be sorted by and filtered by. */
export type Scalar = string | number | boolean;

/** Whether a value is a JSON object, not an array. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Whether a value can be sorted by. */
export function isScalar(value: unknown): value is Scalar {
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean";
}

/** Orders two scalars of one kind the way every store does: text by its UTF-8 bytes, false before true. */
export function compareScalars(one: Scalar, other: Scalar): number {
  if (one === other) return 0;
  if (typeof one === "string" && typeof other === "string") {
    return Buffer.compare(Buffer.from(one), Buffer.from(other));
  }
  return one < other ? -1 : 1;
}
