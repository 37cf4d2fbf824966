import { createHash } from "node:crypto";

import type { Seal } from "../../lib/keys/sealing.ts";
import { type Span, spanOf } from "../../protocol/json/outline.ts";
import { decodeString, elementsOf, membersOf, typeAt } from "../../protocol/json/read.ts";
import type { RequestMessage } from "../../protocol/message.ts";

/** What a `requestState` is bound to. */
export interface RequestState {
  /** The process that holds the call. */
  readonly instance: string;
  /** The suspended call in one round; good for one retry. */
  readonly call: string;
  /** Monotonic milliseconds of that process. */
  readonly expiresAt: number;
  /** Digest of route and principal. */
  readonly owner: string;
  readonly method: string;
  /** Digest of the params. */
  readonly params: string;
}

type Members = readonly [
  instance: string,
  call: string,
  expiresAt: number,
  owner: string,
  method: string,
  params: string,
];

/** Seals a state. It passes through the client (MCP 2026-07-28, Multi Round-Trip Requests). */
export function sealRequestState(
  seal: Seal,
  { instance, call, expiresAt, owner, method, params }: RequestState,
): string {
  const members: Members = [instance, call, expiresAt, owner, method, params];
  return seal.seal(Buffer.from(JSON.stringify(members)));
}

/** The state in a text that a client sent; undefined if no gateway with our keys sealed it. */
export function openRequestState(seal: Seal, text: string): RequestState | undefined {
  const content = seal.open(text);
  if (content === undefined) return undefined;
  // The seal proves that sealRequestState wrote these values.
  const [instance, call, expiresAt, owner, method, params] = JSON.parse(content.toString()) as Members;
  return { instance, call, expiresAt, owner, method, params };
}

/** Digest of a route and a principal. */
export function ownerDigest(route: string, principal: string): string {
  return digest(JSON.stringify([route, principal]));
}

/** Members of params that may differ between a request and its retry. */
const perRound: ReadonlySet<string> = new Set(["inputResponses", "requestState", "_meta"]);

/**
 * Digest of what a request asks for, equal for a request and its retries: white space, member order and escapes do not
 * count. Numbers count digit by digit, so that values beyond double precision stay different.
 */
export function paramsDigest({ bytes, outline }: RequestMessage): string {
  const params = spanOf(outline, "params");
  return digest(params === undefined ? "{}" : canonicalObject(bytes, params, perRound));
}

function digest(text: string): string {
  return createHash("sha256").update(text).digest("base64url");
}

function canonicalObject(bytes: Buffer, object: Span, omitted?: ReadonlySet<string>): string {
  const members: string[] = [];
  for (const { name, value } of membersOf(bytes, object)) {
    if (omitted?.has(name) !== true) members.push(`${JSON.stringify(name)}:${canonicalValue(bytes, value)}`);
  }
  return `{${members.toSorted(byCodeUnit).join(",")}}`;
}

function canonicalValue(bytes: Buffer, value: Span): string {
  switch (typeAt(bytes, value.start)) {
    case "object":
      return canonicalObject(bytes, value);
    case "array":
      return `[${[...elementsOf(bytes, value)].map((element) => canonicalValue(bytes, element)).join(",")}]`;
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
