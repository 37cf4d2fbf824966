import { createHash, createHmac, timingSafeEqual } from "node:crypto";

import { isScalar, type JsonValue, type Scalar } from "../stores/row.ts";

/** The list that a cursor belongs to. */
export interface CursorScope {
  readonly entity: string;
  readonly sort: readonly string[];
  readonly filter: JsonValue | undefined;
}

/** Writes and reads cursors: the sort values of a page's last record, signed for one list (KO-014). */
export interface Cursors {
  write(scope: CursorScope, position: readonly (Scalar | null)[]): string;
  /** The position, or undefined if the text is not a cursor of this list. */
  read(scope: CursorScope, cursor: string): readonly (Scalar | null)[] | undefined;
}

const macBytes = 16;

/** Creates cursors signed with a secret, which all servers behind one address share. */
export function createCursors(secret: string | Uint8Array): Cursors {
  const sign = (scope: CursorScope, body: string): Buffer =>
    createHmac("sha256", secret).update(digestOf(scope)).update("\n").update(body).digest().subarray(0, macBytes);
  return {
    write: (scope, position) => {
      const body = Buffer.from(JSON.stringify(position)).toString("base64url");
      return `${body}.${sign(scope, body).toString("base64url")}`;
    },
    read: (scope, cursor) => {
      const [body, mac, ...rest] = cursor.split(".");
      if (body === undefined || mac === undefined || rest.length > 0) return undefined;
      const given = Buffer.from(mac, "base64url");
      if (given.length !== macBytes || !timingSafeEqual(given, sign(scope, body))) return undefined;
      const position: unknown = JSON.parse(Buffer.from(body, "base64url").toString());
      return Array.isArray(position) && position.every(isPosition) ? position : undefined;
    },
  };
}

function isPosition(value: unknown): value is Scalar | null {
  return value === null || isScalar(value);
}

function digestOf({ entity, sort, filter }: CursorScope): string {
  return createHash("sha256")
    .update(JSON.stringify([entity, sort, filter ?? null]))
    .digest("base64url");
}
