import { createHash, createHmac, timingSafeEqual } from "node:crypto";
import { type Span, spanOf } from "../../protocol/json/outline.ts";
import { decodeString, elementsOf, membersOf, typeAt } from "../../protocol/json/read.ts";
import type { RequestMessage } from "../../protocol/message.ts";

/** What a `requestState` is bound to. */
export interface RequestState {
  /** The suspended call in one round; good for one retry. */
  readonly call: string;
  /** Monotonic milliseconds of this process. */
  readonly expiresAt: number;
  /** Digest of route and principal. */
  readonly owner: string;
  readonly method: string;
  /** Digest of the params. */
  readonly params: string;
}

/** The state that a client sent, or why it is invalid: signed by another process, or not signed. */
export type VerifiedRequestState =
  | { readonly ok: true; readonly state: RequestState }
  | { readonly ok: false; readonly reason: "foreign" | "broken" };

/** Signs and verifies the `requestState` of one process. */
export interface RequestStateSigner {
  sign(state: RequestState): string;
  verify(text: string): VerifiedRequestState;
}

const format = "hg1";

/**
 * Makes the signer of one process: HMAC-SHA256 over everything that a suspended call is bound to. The state passes
 * through the client and is hostile until verified (MCP 2026-07-28, Multi Round-Trip Requests).
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
      // Another process has another secret, so there is nothing to verify.
      if (origin !== self) return foreign;
      const expected = mac(payload);
      const received = Buffer.from(tag, "base64url");
      if (received.length !== expected.length || !timingSafeEqual(received, expected)) return broken;
      return { ok: true, state: stateFrom(payload) };
    },
  };
}

const broken: VerifiedRequestState = { ok: false, reason: "broken" };
const foreign: VerifiedRequestState = { ok: false, reason: "foreign" };

function stateFrom(payload: string): RequestState {
  // The signature is valid, so this process wrote these five values.
  const [call, expiresAt, owner, method, params] = JSON.parse(Buffer.from(payload, "base64url").toString()) as [
    string,
    number,
    string,
    string,
    string,
  ];
  return { call, expiresAt, owner, method, params };
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
