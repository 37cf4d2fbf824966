import type { Seal } from "../lib/keys/sealing.ts";
import { memberSource, memberString } from "../protocol/json/read.ts";
import type { Message } from "../protocol/message.ts";
import { parseRevision, type Revision } from "../protocol/revisions.ts";

/** The lists whose changes a server may announce. */
export const announcedLists = ["tools", "prompts", "resources"] as const;

export type AnnouncedList = (typeof announcedLists)[number];

/** What a client said about itself in `initialize`, as it was sent upstream. */
export interface ClientHandshake {
  readonly protocolVersion: string;
  /** JSON texts. */
  readonly capabilities: string;
  readonly clientInfo: string;
}

/** The upstream's side of a session. */
export interface UpstreamSession {
  /** One that contains those of several servers has a byte in each character. */
  readonly id: string;
  /** Digest of the upstream's address: a session is never offered to another server. */
  readonly at: string;
}

/** Everything that a session needs to continue in another process. It travels sealed in the client's session id. */
export interface SessionRecord {
  /** Without dots. */
  readonly id: string;
  /** The process that opened it. */
  readonly openedBy: string;
  /** Wall time in milliseconds. */
  readonly openedAt: number;
  /** Wall time; a longer `sessions.maxAge` later does not let it live longer. */
  readonly expiresAt: number;
  /** Undefined if the id had to be sent before the server had answered. */
  readonly revision: Revision | undefined;
  readonly handshake: ClientHandshake;
  /** The lists whose changes the server announces. */
  readonly lists: readonly AnnouncedList[];
  /** Undefined where the upstream has no sessions, or its id is too long to carry. */
  readonly upstream: UpstreamSession | undefined;
}

/** Clients repeat the id in a header of every request, and proxies bound headers at 8 KB. */
const maxHandshakeLength = 1536;
const maxUpstreamIdLength = 2048;
const maxNameLength = 128;

/**
 * Seals a record as a session id, which opens for this route and principal only. It begins with the record's id, so that
 * people find a client's session in logs and recordings.
 */
export function sealSessionId(seal: Seal, record: SessionRecord, route: string, principal: string): string {
  const { id, openedBy, openedAt, expiresAt, revision, handshake, lists, upstream } = record;
  const { protocolVersion, capabilities, clientInfo } = handshake;
  const carried = upstream !== undefined && upstream.id.length <= maxUpstreamIdLength ? upstream : undefined;
  const binary = carried === undefined ? undefined : binaryId(carried.id);
  const flags = announcedLists.reduce((bits, list, index) => bits | (lists.includes(list) ? 1 << index : 0), 0);
  const content: Content = [
    openedBy,
    openedAt,
    revision ?? "",
    protocolVersion,
    capabilities,
    clientInfo,
    flags,
    binary === undefined ? (carried?.id ?? "") : "",
    carried?.at ?? "",
    expiresAt,
  ];
  const text = Buffer.from(JSON.stringify(content));
  // After the text: JSON would escape half of the bytes.
  const bytes = binary === undefined ? [text] : [text, Buffer.from(`\n${binary}`, "latin1")];
  return `${id}.${seal.seal(Buffer.concat(bytes), contextOf(id, route, principal))}`;
}

/** The id, if each of its characters is a byte and some are not text. */
function binaryId(id: string): string | undefined {
  return /[^ -~]/u.test(id) && /^[\0-\xFF]+$/u.test(id) ? id : undefined;
}

type Content = readonly [
  openedBy: string,
  openedAt: number,
  revision: string,
  protocolVersion: string,
  capabilities: string,
  clientInfo: string,
  lists: number,
  upstreamId: string,
  upstreamAt: string,
  expiresAt: number,
];

/** The record in a session id; undefined if it was not sealed here for this route and principal. */
export function openSessionId(seal: Seal, text: string, route: string, principal: string): SessionRecord | undefined {
  const dot = text.indexOf(".");
  const id = text.slice(0, Math.max(0, dot));
  const bytes = seal.open(text.slice(dot + 1), contextOf(id, route, principal));
  if (bytes === undefined) return undefined;
  const end = bytes.indexOf("\n");
  const binary = end < 0 ? "" : bytes.toString("latin1", end + 1);
  // The seal proves that sealSessionId wrote it, in this format.
  const [
    openedBy,
    openedAt,
    revision,
    protocolVersion,
    capabilities,
    clientInfo,
    flags,
    upstreamId,
    upstreamAt,
    expiresAt,
  ] = JSON.parse(bytes.toString("utf8", 0, end < 0 ? bytes.length : end)) as Content;
  const parsed = parseRevision(revision);
  return {
    id,
    openedBy,
    openedAt,
    expiresAt,
    revision: parsed.ok ? parsed.revision : undefined,
    handshake: { protocolVersion, capabilities, clientInfo },
    lists: announcedLists.filter((_list, index) => (flags & (1 << index)) !== 0),
    upstream: upstreamId + binary === "" ? undefined : { id: upstreamId + binary, at: upstreamAt },
  };
}

function contextOf(id: string, route: string, principal: string): string {
  return JSON.stringify([id, route, principal]);
}

/** What a session has to remember of an `initialize` request. Beyond the bound, only what servers act on is kept. */
export function clientHandshakeOf(message: Message): ClientHandshake {
  const protocolVersion = (memberString(message, "params.protocolVersion") ?? "").slice(0, maxNameLength);
  const capabilities = memberSource(message, "params.capabilities") ?? "{}";
  const clientInfo = memberSource(message, "params.clientInfo") ?? "{}";
  if (capabilities.length + clientInfo.length <= maxHandshakeLength)
    return { protocolVersion, capabilities, clientInfo };
  return {
    protocolVersion,
    capabilities: boundedCapabilities(JSON.parse(capabilities)),
    clientInfo: boundedClientInfo(JSON.parse(clientInfo)),
  };
}

const knownCapabilities = ["roots", "sampling", "elicitation", "tasks"] as const;
const maxCapabilityLength = 256;

function boundedCapabilities(capabilities: unknown): string {
  const known = knownCapabilities.flatMap((name) => {
    const value: unknown = Reflect.get(Object(capabilities), name);
    if (typeof value !== "object" || value === null) return [];
    return [[name, JSON.stringify(value).length <= maxCapabilityLength ? value : {}] as const];
  });
  return JSON.stringify(Object.fromEntries(known));
}

function boundedClientInfo(clientInfo: unknown): string {
  const short = (member: string): string => {
    const value: unknown = Reflect.get(Object(clientInfo), member);
    return typeof value === "string" ? value.slice(0, maxNameLength) : "";
  };
  return JSON.stringify({ name: short("name"), version: short("version") });
}
