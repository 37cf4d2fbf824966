import {
  configuredRoute,
  entryTargetOf,
  type Exchange,
  type HttpFacts,
  httpFactsOf,
  type Principal,
  principalNameOf,
} from "../../core/exchange.ts";
import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { slotOf } from "../../protocol/json/outline.ts";
import { typeAt } from "../../protocol/json/read.ts";
import type { Message } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import {
  completionReference,
  type ListEntry,
  type ListKind,
  type TargetKind,
  targetName,
} from "../provider/provider.ts";
import {
  type CelMap,
  type CelValue,
  claimsValue,
  emptyMap,
  type MemberNames,
  readCelMembers,
  toCelValue,
} from "./json-value.ts";

/** The CEL variable `mcp`: the request, read when a rule first looks at it. */
export class McpFacts {
  readonly server: string;
  readonly revision: string;
  readonly direction: string;
  readonly kind: string;
  readonly method: string;
  /** The server behind the route, where there are several; else empty. */
  readonly upstream: string;
  readonly #upstreamName: string | undefined;
  readonly #message: Message | undefined;
  readonly #needs: NeededMembers;
  #name: string | undefined;
  #arguments: CelMap | undefined;
  #params: CelMap | undefined;

  constructor(exchange: Exchange, message: Message | undefined, needs: NeededMembers) {
    const { upstream } = exchange.tracking;
    this.server = configuredRoute(exchange.route);
    this.upstream = upstream?.member ?? "";
    this.#upstreamName = upstream?.name;
    this.revision = exchange.revision;
    this.direction = exchange.direction;
    this.kind = message?.kind ?? "";
    this.method = message?.method ?? "";
    this.#message = message;
    this.#needs = needs;
  }

  get tool(): string {
    return this.#target("tool");
  }

  get prompt(): string {
    return this.#target("prompt");
  }

  get resource(): string {
    return this.#target("resource");
  }

  get task(): string {
    return this.#target("task");
  }

  /** The name of the target as its server writes it. */
  get name(): string {
    return this.#upstreamName ?? (this.tool || this.prompt || this.resource || this.task);
  }

  get arguments(): CelMap {
    return (this.#arguments ??= readMember(this.#message, argumentsSlot, this.#needs["mcp.arguments"]));
  }

  get params(): CelMap {
    return (this.#params ??= readMember(this.#message, paramsSlot, this.#needs["mcp.params"]));
  }

  /** The name of the request's target if it is of this kind, else empty. */
  #target(kind: TargetKind): string {
    if (this.#message === undefined) return "";
    if (this.method === "completion/complete") {
      const reference = completionReference(this.#message);
      return reference?.kind === kind ? reference.name : "";
    }
    if (methodFacts(this.method)?.target !== kind) return "";
    return (this.#name ??= targetName(this.#message, kind) ?? "");
  }
}

const argumentsSlot = slotOf("params.arguments");
const paramsSlot = slotOf("params");
const resultSlot = slotOf("result");
const errorSlot = slotOf("error");

/** The members of an object that rules read; empty if it is missing or not an object. */
function readMember(message: Message | undefined, slot: number, needed: NeededMembers[JsonVariable]): CelMap {
  if (message === undefined || needed === undefined) return emptyMap;
  const { bytes, outline } = message;
  const [start, end] = [outline.spans[slot] ?? -1, outline.spans[slot + 1] ?? -1];
  if (start < 0 || typeAt(bytes, start) !== "object") return emptyMap;
  return readCelMembers(bytes, { start, end }, needed === "all" ? undefined : needed);
}

/** The CEL variable `principal`. */
export class PrincipalFacts {
  readonly id: string;
  readonly kind: string;
  readonly scopes: ReadonlySet<string>;
  readonly #claims: Principal["claims"];

  constructor({ id, kind, scopes, claims }: Principal) {
    this.id = id;
    this.kind = kind;
    this.scopes = scopes;
    this.#claims = claims;
  }

  /** The short name, which several authenticators may give. */
  get name(): string {
    return principalNameOf(this.id);
  }

  get claims(): CelMap {
    return claimsValue(this.#claims);
  }
}

/**
 * The CEL variable `request`: how the message arrived. What is unknown, such as the address of a client on standard
 * streams, throws: an empty value would make rules pass that were written for HTTP.
 */
export class RequestFacts {
  readonly #exchange: Exchange;

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
  }

  get transport(): string {
    return this.#exchange.transport.type;
  }

  get method(): string {
    return known("method", httpOf(this.#exchange)?.method);
  }

  get path(): string {
    return known("path", httpOf(this.#exchange)?.path);
  }

  get headers(): Readonly<Record<string, string>> {
    return known("headers", httpOf(this.#exchange)?.headers);
  }

  get peer(): string {
    return known("peer", httpOf(this.#exchange)?.peer);
  }

  get time(): Date {
    return new Date(this.#exchange.timing.wallTime);
  }
}

function known<Value>(name: string, value: Value | undefined): Value {
  if (value === undefined) throw new TypeError(`request.${name} is not known for this message`);
  return value;
}

/** A message inside a stream belongs to the HTTP request that opened it, and one outside any stream to the client's last request. */
function httpOf(exchange: Exchange): HttpFacts | undefined {
  for (let at: Exchange | undefined = exchange; at !== undefined; at = at.parent) {
    const facts = httpFactsOf(at.transport);
    if (facts !== undefined) return facts;
  }
  return exchange.direction === "server-to-client" ? exchange.session?.lastRequest : undefined;
}

/** The CEL variable `session`. */
export class SessionFacts {
  readonly id: string;

  constructor({ session }: Exchange) {
    this.id = session?.id ?? "";
  }
}

/** The CEL variables of one message; each is created when a rule first reads it. */
export class Bindings {
  readonly mcp: McpFacts;
  readonly #exchange: Exchange;
  readonly #response: Message | undefined;
  readonly #needs: NeededMembers;
  #principal: PrincipalFacts | undefined;
  #request: RequestFacts | undefined;
  #session: SessionFacts | undefined;
  #result: CelMap | undefined;
  #error: CelMap | undefined;
  #entry: CelMap | undefined;

  constructor(
    { exchange, message, request }: Pick<InspectedMessage, "exchange" | "message" | "request">,
    needs: NeededMembers,
  ) {
    const isResponse = message.method === undefined;
    this.mcp = new McpFacts(exchange, isResponse ? request : message, needs);
    this.#exchange = exchange;
    this.#response = isResponse ? message : undefined;
    this.#needs = needs;
  }

  get principal(): PrincipalFacts {
    return (this.#principal ??= new PrincipalFacts(this.#exchange.principal));
  }

  get request(): RequestFacts {
    return (this.#request ??= new RequestFacts(this.#exchange));
  }

  get session(): SessionFacts {
    return (this.#session ??= new SessionFacts(this.#exchange));
  }

  get result(): CelMap {
    return (this.#result ??= readMember(this.#response, resultSlot, this.#needs.result));
  }

  get error(): CelMap {
    return (this.#error ??= readMember(this.#response, errorSlot, this.#needs.error));
  }

  get entry(): CelMap {
    return this.#entry ?? emptyMap;
  }

  /** Moves on to another entry of the same list. */
  setEntry(kind: ListKind, entry: ListEntry): void {
    this.#entry = entryValue(kind, entry, this.#needs.entry, this.#exchange);
  }
}

/**
 * The CEL variable `entry`. `kind`, `name` and `uri` are always strings, so that one rule can cover several kinds: `uri`
 * is the URI or URI template, and empty for tools and prompts. `upstream` and `original` are the server behind the route,
 * where there are several, and the name as it writes it.
 */
function entryValue(kind: ListKind, entry: ListEntry, needed: NeededMembers["entry"], exchange: Exchange): CelMap {
  const map = new Map<string, CelValue>();
  for (const name of needed === "all" ? new Set([...Object.keys(entry.value), ...ownMembers]) : (needed?.names ?? [])) {
    const value = entryMember(kind, entry, name, exchange);
    if (value !== undefined) map.set(name, value);
  }
  return map;
}

const ownMembers = ["kind", "name", "uri", "upstream", "original"];

function entryMember(kind: ListKind, entry: ListEntry, member: string, exchange: Exchange): CelValue | undefined {
  const isNamed = kind === "tool" || kind === "prompt";
  switch (member) {
    case "kind":
      return kind;
    case "uri":
      return isNamed ? "" : entry.name;
    case "upstream":
      return entryTargetOf(exchange, kind, entry.name)?.member ?? "";
    case "original":
      return entryTargetOf(exchange, kind, entry.name)?.name ?? entry.name;
    case "name":
      if (isNamed) return entry.name;
      return typeof entry.value["name"] === "string" ? entry.value["name"] : "";
    default:
      return Object.hasOwn(entry.value, member) ? toCelValue(entry.value[member]) : undefined;
  }
}

/** Whether rules read only members of an entry that are known from a call of it too. */
export function isKnownFromCall(kind: ListKind, needed: NeededMembers["entry"]): boolean {
  if (needed === "all") return false;
  const hasName = kind === "tool" || kind === "prompt";
  return [...(needed?.names ?? [])].every((name) => knownFromCall.has(name) || (hasName && name === "name"));
}

const knownFromCall: ReadonlySet<string> = new Set(["kind", "uri", "upstream", "original"]);

/** Where an expression is used, which determines its variables. */
export type ExpressionScope = "call" | "result" | "list" | "mapping";

const anyMap = "map<string, dyn>";

/** The CEL types of the variables. */
export const celTypes = {
  Mcp: {
    method: "string",
    tool: "string",
    resource: "string",
    prompt: "string",
    task: "string",
    upstream: "string",
    name: "string",
    arguments: anyMap,
    params: anyMap,
    server: "string",
    revision: "string",
    direction: "string",
    kind: "string",
  },
  Principal: { id: "string", name: "string", kind: "string", scopes: "list<string>", claims: anyMap },
  Request: {
    transport: "string",
    method: "string",
    path: "string",
    headers: "map<string, string>",
    peer: "string",
    time: "google.protobuf.Timestamp",
  },
  Session: { id: "string" },
} as const satisfies Readonly<Record<string, Readonly<Record<string, string>>>>;

export type TypeName = keyof typeof celTypes;

const shared = { principal: "Principal", mcp: "Mcp", request: "Request", session: "Session" } as const;

/** The variables of each scope, with their types. */
export const variables: Readonly<Record<ExpressionScope, Readonly<Record<string, string>>>> = {
  call: shared,
  result: { ...shared, result: anyMap, error: anyMap },
  list: { ...shared, entry: anyMap },
  // COAZ-MCP binding, "Information Model".
  mapping: { params: anyMap, token: anyMap },
};

/** Variables and fields that hold JSON of the client or server. Only the members that rules read are parsed. */
export const jsonVariables = ["mcp.arguments", "mcp.params", "principal.claims", "result", "error", "entry"] as const;

export type JsonVariable = (typeof jsonVariables)[number];

/** The members of JSON variables that rules read. */
export type NeededMembers = Readonly<Partial<Record<JsonVariable, MemberNames | "all">>>;
