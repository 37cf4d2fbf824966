import { type Diagnostic, type Message, readId, type RequestId } from "./message.ts";
import { type MemberName, slotOf } from "./json/outline.ts";
import { decodeString, memberValue, typeAt } from "./json/read.ts";
import { methodFacts } from "./methods.ts";

/** The thing a request is about, for routing, policy and records. */
export interface MessageTarget {
  readonly type: "tool" | "prompt" | "resource" | "task";
  readonly name: string;
}

/** Another message that this one speaks of. */
export interface RelatedRequest {
  readonly type: "cancel" | "progress" | "subscription";
  readonly id: RequestId;
}

/** W3C trace context as a request carries it in `params._meta`. */
export interface TraceContext {
  readonly traceparent: string;
  readonly tracestate: string | undefined;
  readonly baggage: string | undefined;
}

/** What the transport knew beside the bytes. */
export interface TransportHints {
  readonly session?: string;
  readonly revision?: string;
}

/** Everything that correlation, policy and records want to know of a message without building its values. */
export interface MessageMetadata {
  readonly kind: Message["kind"];
  readonly id: RequestId | undefined;
  readonly method: string | undefined;
  readonly target: MessageTarget | undefined;
  readonly expectsResponse: boolean;
  readonly progressToken: RequestId | undefined;
  readonly trace: TraceContext | undefined;
  readonly related: RelatedRequest | undefined;
  readonly taskId: string | undefined;
  readonly resultType: string | undefined;
  readonly errorCode: number | undefined;
  /** A tool ran and failed: a result with `isError: true`. */
  readonly isToolError: boolean;
  /** Bytes of this message. */
  readonly size: number;
  readonly session: string | undefined;
  /** The revision that the body names, else the one that the transport named. */
  readonly revision: string | undefined;
  /** The parser's findings, and optional fields that had the wrong type and count as absent (SC-024). */
  readonly diagnostics: readonly Diagnostic[];
}

const noHints: TransportHints = {};

/**
 * Extracts metadata from a parsed message; it never fails on one.
 *
 * @example
 * const outcome = parseText('{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"weigh"}}', context);
 * if (outcome.ok && outcome.form === "single") metadataOf(outcome.message).target; // { type: "tool", name: "weigh" }
 */
export function metadataOf(message: Message, hints: TransportHints = noHints): MessageMetadata {
  const reader = new MemberReader(message);
  const { kind, method } = message;
  const isAsking = kind === "request" || kind === "notification";
  const facts = method === undefined ? undefined : methodFacts(method);
  return {
    kind,
    id: message.id,
    method,
    target: facts?.target === undefined ? undefined : targetOf(reader, facts.target),
    expectsResponse: kind === "request",
    progressToken: isAsking ? reader.id("params._meta.progressToken") : undefined,
    trace: isAsking ? traceOf(reader) : undefined,
    related: relationOf(reader, message),
    taskId: taskIdOf(reader, isAsking),
    resultType: kind === "result" ? reader.text("result.resultType") : undefined,
    errorCode: kind === "error" ? reader.integer("error.code") : undefined,
    isToolError: kind === "result" && reader.isTrue("result.isError"),
    size: message.outline.end - message.outline.start,
    session: hints.session,
    revision: revisionOf(reader, isAsking) ?? hints.revision,
    diagnostics: reader.diagnostics ?? message.diagnostics,
  };
}

function targetOf(reader: MemberReader, type: MessageTarget["type"]): MessageTarget | undefined {
  const member = type === "resource" ? "params.uri" : type === "task" ? "params.taskId" : "params.name";
  const name = reader.text(member);
  return name === undefined ? undefined : { type, name };
}

function traceOf(reader: MemberReader): TraceContext | undefined {
  const traceparent = reader.text("params._meta.traceparent");
  if (traceparent === undefined) return undefined;
  return {
    traceparent,
    tracestate: reader.text("params._meta.tracestate"),
    baggage: reader.text("params._meta.baggage"),
  };
}

function relationOf(reader: MemberReader, message: Message): RelatedRequest | undefined {
  if (message.method === "notifications/cancelled") return relation("cancel", reader.id("params.requestId"));
  if (message.method === "notifications/progress") return relation("progress", reader.id("params.progressToken"));
  if (message.kind === "notification") {
    return relation("subscription", reader.id("params._meta.io.modelcontextprotocol/subscriptionId"));
  }
  if (message.kind === "result") {
    return relation("subscription", reader.id("result._meta.io.modelcontextprotocol/subscriptionId"));
  }
  return undefined;
}

function relation(type: RelatedRequest["type"], id: RequestId | undefined): RelatedRequest | undefined {
  return id === undefined ? undefined : { type, id };
}

/** A task id stands in params, in a related-task note, or in the result that created the task. */
function taskIdOf(reader: MemberReader, isAsking: boolean): string | undefined {
  if (isAsking) {
    return reader.text("params.taskId") ?? reader.taskIn("params._meta.io.modelcontextprotocol/related-task");
  }
  return (
    reader.text("result.taskId") ??
    reader.taskIn("result.task") ??
    reader.taskIn("result._meta.io.modelcontextprotocol/related-task")
  );
}

function revisionOf(reader: MemberReader, isAsking: boolean): string | undefined {
  if (!isAsking) return reader.text("result.protocolVersion");
  return reader.text("params._meta.io.modelcontextprotocol/protocolVersion") ?? reader.text("params.protocolVersion");
}

/** Reads optional members; one of the wrong type is noted and counts as absent. */
class MemberReader {
  readonly message: Message;
  diagnostics: Diagnostic[] | undefined;

  constructor(message: Message) {
    this.message = message;
  }

  text(name: MemberName): string | undefined {
    const start = this.start(name);
    if (start < 0) return undefined;
    if (this.message.bytes[start] !== 0x22) return this.wrong(name, "string");
    return decodeString(this.message.bytes, start, this.end(name));
  }

  integer(name: MemberName): number | undefined {
    const start = this.start(name);
    if (start < 0) return undefined;
    const value = Number(this.message.bytes.toString("latin1", start, this.end(name)));
    return Number.isInteger(value) ? value : this.wrong(name, "integer");
  }

  id(name: MemberName): RequestId | undefined {
    const start = this.start(name);
    if (start < 0) return undefined;
    const reading = readId(this.message.bytes, start, this.end(name));
    return reading.ok && !reading.fractional ? reading.id : this.wrong(name, "string or integer");
  }

  isTrue(name: MemberName): boolean {
    const start = this.start(name);
    if (start < 0) return false;
    if (typeAt(this.message.bytes, start) !== "boolean") this.wrong(name, "boolean");
    return this.message.bytes[start] === 0x74;
  }

  /** The `taskId` inside an object member; rare enough to be built. */
  taskIn(name: MemberName): string | undefined {
    const start = this.start(name);
    if (start < 0) return undefined;
    const value: unknown = JSON.parse(this.message.bytes.toString("utf8", start, this.end(name)));
    const taskId: unknown =
      typeof value === "object" && value !== null && Object.hasOwn(value, "taskId")
        ? Reflect.get(value, "taskId")
        : undefined;
    return typeof taskId === "string" ? taskId : this.wrong(name, "object with a taskId");
  }

  private start(name: MemberName): number {
    return this.message.outline.spans[slotOf(name)] ?? -1;
  }

  private end(name: MemberName): number {
    return this.message.outline.spans[slotOf(name) + 1] ?? -1;
  }

  private wrong(name: MemberName, expected: string): undefined {
    this.diagnostics ??= [...this.message.diagnostics];
    const path = pointerOf(name);
    this.diagnostics.push({
      code: "metadata.type",
      severity: "warn",
      path,
      message: `${path} must be a ${expected}`,
    });
    return undefined;
  }
}

/** JSON Pointer (RFC 6901) of a known member; names in `_meta` hold slashes and dots of their own. */
export function pointerOf(name: MemberName): string {
  const meta = /^(params|result)\._meta\.(.+)$/.exec(name);
  const parts = meta === null ? name.split(".") : [meta[1] ?? "", "_meta", meta[2] ?? ""];
  return parts.map((part) => `/${part.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");
}

const finalStatuses: ReadonlySet<unknown> = new Set(["completed", "failed", "cancelled"]);

/** The task that a status notification says has ended (MCP 2025-11-25, Tasks); undefined if none has. */
export function endedTaskId(notification: Message): string | undefined {
  if (notification.method !== "notifications/tasks/status") return undefined;
  const { taskId, status } = taskFields(memberValue(notification, "params"));
  return finalStatuses.has(status) ? taskId : undefined;
}

/**
 * Whether the answer to a request about a task says that the task has ended: one to `tasks/result` always does,
 * because it waits for the end; one to another method if it names a final status.
 */
export function reportsTaskEnd(method: string, answer: Message): boolean {
  if (method === "tasks/result") return true;
  return answer.kind === "result" && finalStatuses.has(taskFields(memberValue(answer, "result")).status);
}

/** The task that a result has created for its request: `result.task` with an id (MCP 2025-11-25, Tasks). */
export function createdTaskId(answer: Message): string | undefined {
  return answer.kind === "result" ? taskFields(memberValue(answer, "result.task")).taskId : undefined;
}

function taskFields(value: unknown): { taskId: string | undefined; status: unknown } {
  if (typeof value !== "object" || value === null) return { taskId: undefined, status: undefined };
  const taskId: unknown = Object.hasOwn(value, "taskId") ? Reflect.get(value, "taskId") : undefined;
  const status: unknown = Object.hasOwn(value, "status") ? Reflect.get(value, "status") : undefined;
  return { taskId: typeof taskId === "string" ? taskId : undefined, status };
}
