import type { Diagnostic, FailureReason } from "./message.ts";

/** What each failure means, for people: what is wrong and what was expected. */
const explanations: Record<FailureReason, string> = {
  "json.empty": "the message is empty",
  "json.bom": "the message begins with a byte order mark; JSON must not have one",
  "json.utf8": "the message is not valid UTF-8",
  "json.syntax": "the message is not valid JSON",
  "json.depth": "the message nests too deeply",
  "json.size": "the message is too large",
  "json.duplicate-key": "a member name occurs twice in one object",
  "json.case-variant": "a member name differs from a protocol member only by letter case",
  "json.lone-surrogate": "a string holds half of a surrogate pair",
  "json.unserialisable": "the value cannot be written as JSON",
  "batch.unsupported": "batches are not part of this protocol revision; send one message at a time",
  "batch.expected": "a batch must be an array",
  "batch.empty": "a batch must hold at least one message",
  "batch.size": "the batch holds too many messages",
  "batch.nested": "a batch must not hold another array",
  "batch.initialize": "initialize must not be part of a batch",
  "batch.mixed": "a batch holds requests and notifications, or responses, never both",
  "message.null": "a message must be an object, not null",
  "message.boolean": "a message must be an object, not a boolean",
  "message.number": "a message must be an object, not a number",
  "message.string": "a message must be an object, not a string",
  "message.array": "one message was expected, not an array",
  "message.object": "the message is not usable",
  "jsonrpc.missing": 'the member "jsonrpc" is missing; it must be "2.0"',
  "jsonrpc.version": 'the member "jsonrpc" must be the string "2.0"',
  "id.null": "the id must be a string or an integer, not null",
  "id.fractional": "the id must be an integer, not a fraction",
  "id.type": "the id must be a string or an integer",
  "method.type": "the method must be a string",
  "method.empty": "the method must not be empty",
  "params.type": "params must be an object",
  "shape.mixed": "a message cannot have a method and a result or error",
  "shape.empty": "the message has neither a method nor a result nor an error",
  "response.both": "a response has a result or an error, not both",
  "response.neither": "the message has an id but neither a method nor a result nor an error",
  "response.id": "a result must carry the id of its request",
  "result.type": "result must be an object",
  "error.type": "error must be an object",
  "error.code": "error.code must be an integer",
  "error.message": "error.message must be a string",
};

/** The full sentence for a failure, with its place or its limit. */
export function failureMessage(
  reason: FailureReason,
  offset?: number,
  limit?: { readonly actual: number; readonly allowed: number },
): string {
  const place = offset === undefined ? "" : ` (at byte ${offset})`;
  const bound = limit === undefined ? "" : `: ${limit.actual}, at most ${limit.allowed} allowed`;
  return `${explanations[reason]}${bound}${place}`;
}

/** The same finding as a diagnostic, for those who only observe. */
export function failureDiagnostic(
  reason: FailureReason,
  severity: Diagnostic["severity"],
  offset?: number,
): Diagnostic {
  return {
    code: reason,
    severity,
    message: failureMessage(reason, offset),
    ...(offset === undefined ? {} : { data: { offset } }),
  };
}
