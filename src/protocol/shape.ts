import { type FailureReason, type Message, readId, type RequestId } from "./message.ts";
import { type Outline, slotOf } from "./json/outline.ts";
import { decodeString, typeAt } from "./json/read.ts";
import { methodNames } from "./methods.ts";

/** The envelope of a JSON-RPC message, or why these members do not make one. */
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
 * Judges which kind of message an object is, by its own members only (JSON-RPC 2.0 sections 4 and 5, with MCP's
 * stricter rules: ids are strings or integers, params and result are objects). Nothing is coerced or repaired.
 */
export function shapeOf(bytes: Buffer, outline: Outline): Shape {
  const { spans } = outline;
  const idAt = spans[id] ?? -1;
  const reading = idAt < 0 ? undefined : readId(bytes, idAt, spans[id + 1] ?? 0);
  const readableId = reading?.ok === true && !reading.fractional ? reading.id : undefined;
  const refuse = (reason: FailureReason, at: number): Shape => ({ ok: false, reason, at, id: readableId });

  const versionAt = spans[jsonrpc] ?? -1;
  if (versionAt < 0) return refuse("jsonrpc.missing", outline.start);
  if (!isVersionTwo(bytes, versionAt, spans[jsonrpc + 1] ?? 0)) return refuse("jsonrpc.version", versionAt);

  const methodAt = spans[method] ?? -1;
  const resultAt = spans[result] ?? -1;
  const errorAt = spans[error] ?? -1;
  if (methodAt >= 0) {
    if (bytes[methodAt] !== 0x22) return refuse("method.type", methodAt);
    const methodEnd = spans[method + 1] ?? 0;
    if (methodEnd - methodAt === 2) return refuse("method.empty", methodAt);
    if (resultAt >= 0 || errorAt >= 0) return refuse("shape.mixed", resultAt >= 0 ? resultAt : errorAt);
    if (reading?.ok === false) return refuse(reading.reason, idAt);
    const paramsAt = spans[params] ?? -1;
    if (paramsAt >= 0 && bytes[paramsAt] !== 0x7b) return refuse("params.type", paramsAt);
    return {
      ok: true,
      kind: reading === undefined ? "notification" : "request",
      id: reading?.id,
      method: methodNameAt(bytes, methodAt, methodEnd),
      fractionalId: reading?.fractional ?? false,
    };
  }

  if (resultAt >= 0 && errorAt >= 0) return refuse("response.both", errorAt);
  if (resultAt >= 0) {
    if (reading === undefined) return refuse("response.id", outline.start);
    if (!reading.ok) return refuse(reading.reason, idAt);
    if (bytes[resultAt] !== 0x7b) return refuse("result.type", resultAt);
    return { ok: true, kind: "result", id: reading.id, method: undefined, fractionalId: reading.fractional };
  }
  if (errorAt < 0) return refuse(idAt < 0 ? "shape.empty" : "response.neither", outline.start);
  // A null or missing id is allowed here alone: the request was unreadable, so the error answers nothing (SC-015).
  if (reading?.ok === false && reading.reason !== "id.null") return refuse(reading.reason, idAt);
  if (bytes[errorAt] !== 0x7b) return refuse("error.type", errorAt);
  if (!isInteger(bytes, spans, errorCode)) return refuse("error.code", errorAt);
  const messageAt = spans[errorMessage] ?? -1;
  if (messageAt < 0 || bytes[messageAt] !== 0x22) return refuse("error.message", errorAt);
  return {
    ok: true,
    kind: "error",
    id: reading?.ok === true ? reading.id : undefined,
    method: undefined,
    fractionalId: reading?.ok === true && reading.fractional,
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

/** The method name of the JSON string between two offsets; known names are not decoded anew for every message. */
function methodNameAt(bytes: Buffer, start: number, end: number): string {
  const candidates = byLength[end - start - 2];
  if (candidates !== undefined) {
    for (const candidate of candidates) if (standsAt(candidate.bytes, bytes, start + 1)) return candidate.name;
  }
  return decodeString(bytes, start, end);
}

function standsAt(known: Buffer, bytes: Buffer, at: number): boolean {
  for (let i = 0; i < known.length; i++) if (known[i] !== bytes[at + i]) return false;
  return true;
}
