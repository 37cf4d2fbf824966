import { createHash, createHmac, timingSafeEqual } from "node:crypto";

import { type Span, spanOf } from "../../protocol/json/outline.ts";
import { decodeString, elementsOf, membersOf, typeAt } from "../../protocol/json/read.ts";
import type { RequestMessage } from "../../protocol/message.ts";

/** What a `requestState` of ours is bound to. */
export interface RequestState {
  /** The parked call in one round, good for one retry. */
  readonly call: string;
  /** Monotonic milliseconds of this process. */
  readonly expiresAt: number;
  /** Route and principal, as one digest. */
  readonly owner: string;
  readonly method: string;
  /** Digest of the params. */
  readonly params: string;
}

/** What a client brought as `requestState`. */
export type VerifiedRequestState =
  | { readonly ok: true; readonly state: RequestState }
  /** `foreign` was made by another process, `broken` by nobody we know. */
  | { readonly ok: false; readonly reason: "foreign" | "broken" };

/** Makes and opens the opaque states of one process. */
export interface RequestStateSigner {
  sign(state: RequestState): string;
  verify(text: string): VerifiedRequestState;
}

const format = "hg1";

/**
 * Makes the seal of one process: an HMAC-SHA256 over everything that a parked call is bound to. MCP 2026-07-28, Multi
 * Round-Trip Requests: the state passes through the client, so it is hostile until it is verified.
 */
export function createRequestStateSigner(instance: string, secret: Uint8Array): RequestStateSigner {
  const self = Buffer.from(instance).toString("base64url");
  const mac = (payload: string): Buffer => createHmac("sha256", secret).update(`${format}.${self}.${payload}`).digest();

  return {
    sign: ({ call, expiresAt, owner, method, params }) => {
      const members = JSON.stringify([call, expiresAt, owner, method, params]);
      const payload = Buffer.from(members).toString("base64url");
      return `${format}.${self}.${payload}.${mac(payload).toString("base64url")}`;
    },
    verify: (text) => {
      const [version, origin, payload, tag, ...rest] = text.split(".");
      if (version !== format || payload === undefined || tag === undefined || rest.length > 0) return broken;
      // Another process had another secret, so there is nothing to verify; the client can only begin anew.
      if (origin !== self) return foreign;
      const expected = mac(payload);
      const brought = Buffer.from(tag, "base64url");
      if (brought.length !== expected.length || !timingSafeEqual(brought, expected)) return broken;
      return { ok: true, state: stateFrom(payload) };
    },
  };
}

/** One digest for whom a call belongs to. */
export function ownerDigest(route: string, principal: string): string {
  return createHash("sha256")
    .update(JSON.stringify([route, principal]))
    .digest("base64url");
}

const broken: VerifiedRequestState = { ok: false, reason: "broken" };
const foreign: VerifiedRequestState = { ok: false, reason: "foreign" };

function stateFrom(payload: string): RequestState {
  // The seal was good, so we wrote these five ourselves.
  const [call, expiresAt, owner, method, params] = JSON.parse(Buffer.from(payload, "base64url").toString()) as [
    string,
    number,
    string,
    string,
    string,
  ];
  return { call, expiresAt, owner, method, params };
}

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
