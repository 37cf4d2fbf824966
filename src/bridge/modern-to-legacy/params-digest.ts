import { createHash } from "node:crypto";
import { spanOf } from "../../protocol/json/outline.ts";
import type { Span } from "../../protocol/json/outline.ts";
import { decodeString, typeAt } from "../../protocol/json/read.ts";
import { elementsOf, membersOf } from "../../protocol/json/walk.ts";
import type { RequestMessage } from "../../protocol/message.ts";

/** What may differ between a request and its retry: the answers, the state, and the envelope. */
const perRound: ReadonlySet<string> = new Set(["inputResponses", "requestState", "_meta"]);

/**
 * A digest of what a request asks for, equal for a request and its retries however they are spelled: white space, the
 * order of members and escapes do not count. Numbers count digit by digit, so that no two values look the same.
 */
export function paramsDigest({ bytes, outline }: RequestMessage): string {
  const params = spanOf(outline, "params");
  const text = params === undefined ? "{}" : objectText(bytes, params, perRound);
  return createHash("sha256").update(text).digest("base64url");
}

function objectText(bytes: Buffer, object: Span, left: ReadonlySet<string>): string {
  const members: string[] = [];
  for (const { name, value } of membersOf(bytes, object)) {
    if (!left.has(name)) members.push(`${JSON.stringify(name)}:${valueText(bytes, value)}`);
  }
  return `{${members.toSorted(byCodeUnit).join(",")}}`;
}

const none: ReadonlySet<string> = new Set();

function valueText(bytes: Buffer, value: Span): string {
  switch (typeAt(bytes, value.start)) {
    case "object":
      return objectText(bytes, value, none);
    case "array":
      return `[${[...elementsOf(bytes, value)].map((element) => valueText(bytes, element)).join(",")}]`;
    case "string":
      return JSON.stringify(decodeString(bytes, value.start, value.end));
    case "number":
    case "boolean":
    case "null":
      return bytes.toString("latin1", value.start, value.end);
  }
}

function byCodeUnit(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
