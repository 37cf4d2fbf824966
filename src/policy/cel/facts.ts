import type { Exchange, Principal, TransportContext } from "../../core/exchange.ts";
import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { slotOf, type MemberName } from "../../protocol/json/outline.ts";
import { memberString, memberValue, typeAt } from "../../protocol/json/read.ts";
import type { Message } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import type { ListEntry, ListKind } from "../provider/provider.ts";
import { noMembers, readCelMembers, toCelValue, type CelValue } from "./json-value.ts";
import type { NeededMembers, JsonVariable } from "./scope.ts";

type JsonMap = ReadonlyMap<string, CelValue>;

/** What a rule can know of the message that asks; everything is read when it is first looked at. */
export class McpFacts {
  readonly server: string;
  readonly revision: string;
  readonly direction: string;
  readonly kind: string;
  readonly method: string;
  readonly #message: Message | undefined;
  readonly #needs: NeededMembers;
  #name: string | undefined;
  #arguments: JsonMap | undefined;
  #params: JsonMap | undefined;

  constructor(exchange: Exchange, message: Message | undefined, needs: NeededMembers) {
    this.server = exchange.route;
    this.revision = exchange.revision;
    this.direction = exchange.direction;
    this.kind = message?.kind ?? "";
    this.method = message?.method ?? "";
    this.#message = message;
    this.#needs = needs;
  }

  get tool(): string {
    return this.#named("tool");
  }

  get prompt(): string {
    return this.#named("prompt");
  }

  get resource(): string {
    return this.#named("resource");
  }

  get task(): string {
    return this.#named("task");
  }

  get arguments(): JsonMap {
    return (this.#arguments ??= readJsonMember(this.#message, argumentsSlot, this.#needs["mcp.arguments"]));
  }

  get params(): JsonMap {
    return (this.#params ??= readJsonMember(this.#message, paramsSlot, this.#needs["mcp.params"]));
  }

  /** Whom or what the request is about, if it is of this kind; empty otherwise. */
  #named(kind: TargetKind): string {
    if (this.method === "completion/complete") return referenceOf(this.#message, kind);
    if (methodFacts(this.method)?.target !== kind || this.#message === undefined) return "";
    return (this.#name ??= requestTargetName(this.#message, kind) ?? "");
  }
}

type TargetKind = "tool" | "prompt" | "resource" | "task";

/** Where a request says whom or what it is about. */
export const nameMembers = {
  tool: "params.name",
  prompt: "params.name",
  resource: "params.uri",
  task: "params.taskId",
} as const satisfies Readonly<Record<TargetKind, MemberName>>;

/** The name of what a request is about; undefined where it says none, or not as a text. */
export function requestTargetName(message: Message, kind: TargetKind): string | undefined {
  return memberString(message, nameMembers[kind]);
}

/** The prompt or resource whose arguments a completion is for (MCP 2025-11-25, Completion). */
function referenceOf(message: Message | undefined, kind: TargetKind): string {
  if ((kind !== "prompt" && kind !== "resource") || message === undefined) return "";
  const reference = memberValue(message, "params.ref");
  if (typeof reference !== "object" || reference === null) return "";
  const { type, name, uri } = reference as Readonly<Record<string, unknown>>;
  const value = kind === "prompt" ? name : uri;
  return type === `ref/${kind}` && typeof value === "string" ? value : "";
}

const argumentsSlot = slotOf("params.arguments");
const paramsSlot = slotOf("params");
const resultSlot = slotOf("result");
const errorSlot = slotOf("error");

/** What rules look at of an object; nothing where it is none. */
function readJsonMember(message: Message | undefined, slot: number, wanted: NeededMembers[JsonVariable]): JsonMap {
  if (message === undefined || wanted === undefined) return noMembers;
  const { bytes, outline } = message;
  const [start, end] = [outline.spans[slot] ?? -1, outline.spans[slot + 1] ?? -1];
  if (start < 0 || typeAt(bytes, start) !== "object") return noMembers;
  return readCelMembers(bytes, { start, end }, wanted === "all" ? undefined : wanted);
}

const claims = new WeakMap<object, CelValue>();

/** What a rule can know of the caller. */
export class PrincipalFacts {
  readonly id: string;
  readonly kind: string;
  readonly scopes: ReadonlySet<string>;
  readonly #claims: Principal["claims"];

  constructor({ id, kind, scopes, claims: own }: Principal) {
    this.id = id;
    this.kind = kind;
    this.scopes = scopes;
    this.#claims = own;
  }

  get claims(): CelValue {
    // A token is used many times, and its claims do not change.
    let value = claims.get(this.#claims);
    if (value === undefined) claims.set(this.#claims, (value = toCelValue(this.#claims)));
    return value;
  }
}

/** What a rule can know of how the message came. */
export class RequestFacts {
  readonly #exchange: Exchange;

  constructor(exchange: Exchange) {
    this.#exchange = exchange;
  }

  get transport(): string {
    return this.#exchange.transport.type;
  }

  get method(): string {
    return httpOf(this.#exchange)?.method ?? "";
  }

  get path(): string {
    return httpOf(this.#exchange)?.path ?? "";
  }

  get headers(): Readonly<Record<string, string>> {
    return httpOf(this.#exchange)?.headers ?? {};
  }

  get peer(): string {
    return httpOf(this.#exchange)?.peer ?? "";
  }

  get time(): Date {
    return new Date(this.#exchange.timing.wallTime);
  }
}

/** A message inside a stream came with the request that opened it. */
function httpOf(exchange: Exchange): Extract<TransportContext, { type: "http" }> | undefined {
  for (let at: Exchange | undefined = exchange; at !== undefined; at = at.parent) {
    if (at.transport.type === "http") return at.transport;
  }
  return undefined;
}

/** What a rule can know of the session. */
export class SessionFacts {
  readonly id: string;

  constructor({ session }: Exchange) {
    this.id = session?.id ?? "";
  }
}

/** An entry of a list, and of which kind the list is. */
export interface CurrentEntry {
  readonly kind: ListKind;
  readonly entry: ListEntry;
}

/** The values of the variables for one question; each is made when a rule first looks at it. */
export class Bindings {
  readonly mcp: McpFacts;
  readonly #exchange: Exchange;
  readonly #answer: Message | undefined;
  readonly #needs: NeededMembers;
  #principal: PrincipalFacts | undefined;
  #request: RequestFacts | undefined;
  #session: SessionFacts | undefined;
  #result: JsonMap | undefined;
  #error: JsonMap | undefined;
  #entry: JsonMap | undefined;
  #listed: CurrentEntry | undefined;

  constructor(
    { exchange, message, request }: Pick<InspectedMessage, "exchange" | "message" | "request">,
    needs: NeededMembers,
  ) {
    const isAsking = message.method !== undefined;
    this.mcp = new McpFacts(exchange, isAsking ? message : request, needs);
    this.#exchange = exchange;
    this.#answer = isAsking ? undefined : message;
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

  get result(): JsonMap {
    return (this.#result ??= readJsonMember(this.#answer, resultSlot, this.#needs.result));
  }

  get error(): JsonMap {
    return (this.#error ??= readJsonMember(this.#answer, errorSlot, this.#needs.error));
  }

  get entry(): JsonMap {
    return (this.#entry ??= this.#listed === undefined ? noMembers : entryOf(this.#listed, this.#needs.entry));
  }

  /** The entry that is looked at, without building anything of it. */
  get listed(): CurrentEntry | undefined {
    return this.#listed;
  }

  /** Goes on to another entry of the same list. */
  setEntry(kind: ListKind, entry: ListEntry): void {
    this.#listed = { kind, entry };
    this.#entry = undefined;
  }
}

/**
 * An entry as rules see it. `name` and `uri` are always texts, so that one rule can be about entries of several kinds:
 * `uri` is that of a resource or the URI template of a template, and empty for others.
 */
function entryOf(listed: CurrentEntry, needs: NeededMembers["entry"]): JsonMap {
  const map = new Map<string, CelValue>();
  const { value } = listed.entry;
  if (!isKnownByCall(listed.kind, needs)) {
    for (const name of needs === "all" ? Object.keys(value) : (needs?.names ?? [])) {
      if (Object.hasOwn(value, name)) map.set(name, toCelValue(value[name]));
    }
  }
  return map.set("kind", listed.kind).set("name", entryName(listed)).set("uri", entryUri(listed));
}

/** The name of an entry; one without has an empty one. */
export function entryName({ kind, entry }: CurrentEntry): string {
  if (kind === "tool" || kind === "prompt") return entry.name;
  const { name } = entry.value;
  return typeof name === "string" ? name : "";
}

/** The URI or URI template of an entry; empty for tools and prompts. */
export function entryUri({ kind, entry }: CurrentEntry): string {
  return kind === "tool" || kind === "prompt" ? "" : entry.name;
}

/** Whether rules look at nothing of an entry but what a call says of it too. */
export function isKnownByCall(kind: ListKind, needs: NeededMembers["entry"]): boolean {
  if (needs === undefined) return true;
  if (needs === "all") return false;
  const hasName = kind === "tool" || kind === "prompt";
  for (const name of needs.names) {
    if (name !== "kind" && name !== "uri" && !(hasName && name === "name")) return false;
  }
  return true;
}
