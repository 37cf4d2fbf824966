import { type FailureReason, type Message, readId, type RequestId } from "./message.ts";
import { type Outline, slotOf } from "./json/outline.ts";
import { decodeString, typeAt } from "./json/read.ts";
import { methodNames } from "./methods.ts";

/** The kind, id and method of a JSON-RPC message, or why the object is not one. */
export type Shape =
  | {
      readonly ok: true;
      readonly kind: Message["kind"];
      readonly id: RequestId | undefined;
      readonly method: string | undefined;
      readonly fractionalId: boolean;
    }
  | {
      readonly ok: false;
      readonly reason: FailureReason;
      readonly at: number;
      readonly id: RequestId | undefined;
    };

const jsonrpc = slotOf("jsonrpc");
const id = slotOf("id");
const method = slotOf("method");
const params = slotOf("params");
const result = slotOf("result");
const error = slotOf("error");
const errorCode = slotOf("error.code");
const errorMessage = slotOf("error.message");

/**
 * Finds the kind of a message by its members (JSON-RPC 2.0 sections 4 and 5, with the stricter rules of MCP: ids are
 * strings or integers, params and result are objects).
 */
export function shapeOf(bytes: Buffer, outline: Outline): Shape {
  const { spans } = outline;
  const idAt = spans[id] ?? -1;
  const parsedId = idAt < 0 ? undefined : readId(bytes, idAt, spans[id + 1] ?? 0);
  const usableId = parsedId?.ok === true && !parsedId.fractional ? parsedId.id : undefined;
  const invalid = (reason: FailureReason, at: number): Shape => ({ ok: false, reason, at, id: usableId });

  const versionAt = spans[jsonrpc] ?? -1;
  if (versionAt < 0) return invalid("jsonrpc.missing", outline.start);
  if (!isVersionTwo(bytes, versionAt, spans[jsonrpc + 1] ?? 0)) return invalid("jsonrpc.version", versionAt);

  const methodAt = spans[method] ?? -1;
  const resultAt = spans[result] ?? -1;
  const errorAt = spans[error] ?? -1;
  if (methodAt >= 0) {
    if (bytes[methodAt] !== 0x22) return invalid("method.type", methodAt);
    const methodEnd = spans[method + 1] ?? 0;
    if (methodEnd - methodAt === 2) return invalid("method.empty", methodAt);
    if (resultAt >= 0 || errorAt >= 0) return invalid("shape.mixed", resultAt >= 0 ? resultAt : errorAt);
    if (parsedId?.ok === false) return invalid(parsedId.reason, idAt);
    const paramsAt = spans[params] ?? -1;
    if (paramsAt >= 0 && bytes[paramsAt] !== 0x7b) return invalid("params.type", paramsAt);
    return {
      ok: true,
      kind: parsedId === undefined ? "notification" : "request",
      id: parsedId?.id,
      method: methodNameAt(bytes, methodAt, methodEnd),
      fractionalId: parsedId?.fractional ?? false,
    };
  }

  if (resultAt >= 0 && errorAt >= 0) return invalid("response.both", errorAt);
  if (resultAt >= 0) {
    if (parsedId === undefined) return invalid("response.id", outline.start);
    if (!parsedId.ok) return invalid(parsedId.reason, idAt);
    if (bytes[resultAt] !== 0x7b) return invalid("result.type", resultAt);
    return { ok: true, kind: "result", id: parsedId.id, method: undefined, fractionalId: parsedId.fractional };
  }
  if (errorAt < 0) return invalid(idAt < 0 ? "shape.empty" : "response.neither", outline.start);
  // Only an error may have a null or missing id: the request was unreadable (SC-015).
  if (parsedId?.ok === false && parsedId.reason !== "id.null") return invalid(parsedId.reason, idAt);
  if (bytes[errorAt] !== 0x7b) return invalid("error.type", errorAt);
  if (!isInteger(bytes, spans, errorCode)) return invalid("error.code", errorAt);
  const messageAt = spans[errorMessage] ?? -1;
  if (messageAt < 0 || bytes[messageAt] !== 0x22) return invalid("error.message", errorAt);
  return {
    ok: true,
    kind: "error",
    id: parsedId?.ok === true ? parsedId.id : undefined,
    method: undefined,
    fractionalId: parsedId?.ok === true && parsedId.fractional,
  };
}

function isVersionTwo(bytes: Buffer, start: number, end: number): boolean {
  if (bytes[start] !== 0x22) return false;
  if (end - start === 5) return bytes[start + 1] === 0x32 && bytes[start + 2] === 0x2e && bytes[start + 3] === 0x30;
  return decodeString(bytes, start, end) === "2.0";
}

function isInteger(bytes: Buffer, spans: readonly number[], slot: number): boolean {
  const start = spans[slot] ?? -1;
  if (start < 0 || typeAt(bytes, start) !== "number") return false;
  return Number.isInteger(Number(bytes.toString("latin1", start, spans[slot + 1] ?? 0)));
}

const byLength: { readonly name: string; readonly bytes: Buffer }[][] = [];
for (const name of methodNames) (byLength[name.length] ??= []).push({ name, bytes: Buffer.from(name) });

/** The method name between two offsets; known names are not decoded again for every message. */
function methodNameAt(bytes: Buffer, start: number, end: number): string {
  const candidates = byLength[end - start - 2];
  if (candidates !== undefined) {
    for (const candidate of candidates) if (matchesAt(candidate.bytes, bytes, start + 1)) return candidate.name;
  }
  return decodeString(bytes, start, end);
}

function matchesAt(known: Buffer, bytes: Buffer, at: number): boolean {
  for (let i = 0; i < known.length; i++) if (known[i] !== bytes[at + i]) return false;
  return true;
}
