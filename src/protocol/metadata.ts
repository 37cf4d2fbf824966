import { asObject, isObject } from "../lib/is-object.ts";
import { createDiagnostic, type Diagnostic } from "./diagnostics.ts";
import { isMethodMessage, type Message, readId, type RequestId } from "./message.ts";
import { type MemberName, slotOf } from "./json/outline.ts";
import { decodeString, memberString, memberValue, pointerTo, typeAt } from "./json/read.ts";
import { methodFacts } from "./methods.ts";

/** What a request is about, for routing, policy and recording. */
export interface MessageTarget {
  readonly type: "tool" | "prompt" | "resource" | "task";
  readonly name: string;
}

/** Another message that a message refers to. */
export interface RelatedRequest {
  readonly type: "cancel" | "progress" | "subscription";
  readonly id: RequestId;
}

/** The W3C trace context in `params._meta`. */
export interface TraceContext {
  readonly traceparent: string;
  readonly tracestate: string | undefined;
  readonly baggage: string | undefined;
}

/** What the transport knows besides the bytes. */
export interface TransportHints {
  readonly session?: string;
  readonly revision?: string;
}

/** What correlation, policy and recording need to know about a message. */
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
  /** Whether a tool failed: a result with `isError: true`. */
  readonly isToolError: boolean;
  /** The size in bytes. */
  readonly size: number;
  readonly session: string | undefined;
  /** The revision that the body names, otherwise the one of the transport. */
  readonly revision: string | undefined;
  /** The diagnostics of the parser, and of optional members of the wrong type, which count as absent (SC-024). */
  readonly diagnostics: readonly Diagnostic[];
}

const noHints: TransportHints = {};

/**
 * Extracts the metadata of a parsed message. Never fails.
 *
 * @example
 * const outcome = parseText('{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"weigh"}}', context);
 * if (outcome.ok && outcome.form === "single") metadataOf(outcome.message).target; // { type: "tool", name: "weigh" }
 */
export function metadataOf(message: Message, hints: TransportHints = noHints): MessageMetadata {
  const reader = new MemberReader(message);
  const { kind, method } = message;
  const hasMethod = isMethodMessage(message);
  const facts = method === undefined ? undefined : methodFacts(method);
  return {
    kind,
    id: message.id,
    method,
    target: facts?.target === undefined ? undefined : targetOf(reader, facts.target),
    expectsResponse: kind === "request",
    progressToken: hasMethod ? reader.id("params._meta.progressToken") : undefined,
    trace: hasMethod ? traceOf(reader) : undefined,
    related: relationOf(reader, message),
    taskId: taskIdOf(reader, hasMethod),
    resultType: kind === "result" ? reader.text("result.resultType") : undefined,
    errorCode: kind === "error" ? reader.integer("error.code") : undefined,
    isToolError: kind === "result" && reader.isTrue("result.isError"),
    size: message.outline.end - message.outline.start,
    session: hints.session,
    revision: revisionOf(reader, hasMethod) ?? hints.revision,
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

/** The task id in params, in the related-task metadata, or in the result that created the task. */
function taskIdOf(reader: MemberReader, hasMethod: boolean): string | undefined {
  if (hasMethod) {
    return reader.text("params.taskId") ?? reader.taskIn("params._meta.io.modelcontextprotocol/related-task");
  }
  return (
    reader.text("result.taskId") ??
    reader.taskIn("result.task") ??
    reader.taskIn("result._meta.io.modelcontextprotocol/related-task")
  );
}

function revisionOf(reader: MemberReader, hasMethod: boolean): string | undefined {
  if (!hasMethod) return reader.text("result.protocolVersion");
  return reader.text("params._meta.io.modelcontextprotocol/protocolVersion") ?? reader.text("params.protocolVersion");
}

/** Longer names of clients are cut. */
const longestClientName = 64;

/** The name that a client gives itself in a handshake, or in the envelope of a modern message. */
export function clientNameOf(message: Message): string | undefined {
  const member =
    message.method === "initialize" ? "params.clientInfo" : "params._meta.io.modelcontextprotocol/clientInfo";
  const info = asObject(memberValue(message, member));
  const name = info === undefined || !Object.hasOwn(info, "name") ? undefined : info["name"];
  return typeof name === "string" && name !== "" ? name.slice(0, longestClientName) : undefined;
}

/** Reads optional members; one of the wrong type is reported and counts as absent. */
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

  /** The `taskId` inside an object member. */
  taskIn(name: MemberName): string | undefined {
    const start = this.start(name);
    if (start < 0) return undefined;
    const value: unknown = JSON.parse(this.message.bytes.toString("utf8", start, this.end(name)));
    return taskFields(value).taskId ?? this.wrong(name, "object with a taskId");
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
    this.diagnostics.push(createDiagnostic("metadata.type", `${path} must be a ${expected}`, { path }));
    return undefined;
  }
}

/** The JSON Pointer of a known member; keys in `_meta` may contain dots. */
function pointerOf(name: MemberName): string {
  const meta = /^(params|result)\._meta\.(.+)$/.exec(name);
  const parts = meta === null ? name.split(".") : [meta[1] ?? "", "_meta", meta[2] ?? ""];
  return pointerTo(parts);
}

const finalStatuses: ReadonlySet<unknown> = new Set(["completed", "failed", "cancelled"]);

/** The id of the task that a status notification reports as ended (MCP 2025-11-25, Tasks). */
export function endedTaskId(notification: Message): string | undefined {
  if (notification.method !== "notifications/tasks/status") return undefined;
  const { taskId, status } = taskFields(memberValue(notification, "params"));
  return finalStatuses.has(status) ? taskId : undefined;
}

/** Whether the response to a task request reports the end of the task; `tasks/result` always waits for the end. */
export function reportsTaskEnd(method: string, answer: Message): boolean {
  if (method === "tasks/result") return true;
  return answer.kind === "result" && finalStatuses.has(taskFields(memberValue(answer, "result")).status);
}

/** The id of the task that a call has become, in the form of MCP 2025-11-25 or that of the Tasks extension. */
export function startedTaskId(answer: Message): string | undefined {
  if (answer.kind !== "result") return undefined;
  return memberString(answer, "result.resultType") === "task"
    ? memberString(answer, "result.taskId")
    : createdTaskId(answer);
}

/** The id of the task that a result created (MCP 2025-11-25, Tasks). */
export function createdTaskId(answer: Message): string | undefined {
  return answer.kind === "result" ? taskFields(memberValue(answer, "result.task")).taskId : undefined;
}

function taskFields(value: unknown): { taskId: string | undefined; status: unknown } {
  const { taskId, status } = isObject(value) ? value : {};
  return { taskId: typeof taskId === "string" ? taskId : undefined, status };
}
