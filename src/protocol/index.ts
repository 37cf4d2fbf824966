/**
 * Public API of the protocol core: parse MCP messages, read and edit them, and look up what each protocol revision has.
 *
 * @example
 * import { metadataOf, parseText } from "headgate/protocol";
 *
 * const text = '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"weigh"}}';
 * const outcome = parseText(text, { revision: "2025-11-25", mode: "enforce" });
 * if (outcome.ok && outcome.form === "single") metadataOf(outcome.message).target; // { type: "tool", name: "weigh" }
 */
import "../lib/node-version.ts";

// Parse messages.
export { parse, parseBatch, parseMessage, parseText, peek } from "./parse.ts";
export type { ParseContext, Peeked } from "./parse.ts";
export {
  combineAnswers,
  defaultLimits,
  groupByKind,
  idFrom,
  messageBytes,
  reverseDirection,
  stdioLineLimit,
} from "./message.ts";
export type { Diagnostic, DiagnosticCode, FindingCode, Severity } from "./diagnostics.ts";
export type {
  Direction,
  ErrorMessage,
  FailureReason,
  GroupedMessages,
  Message,
  MessageBase,
  MessageOutcome,
  MethodMessage,
  NotificationMessage,
  ParseFailure,
  ParseLimits,
  ParseOutcome,
  RequestId,
  RequestMessage,
  ResultMessage,
} from "./message.ts";

// Read and edit them.
export { metadataOf } from "./metadata.ts";
export type { MessageMetadata, MessageTarget, RelatedRequest, TraceContext, TransportHints } from "./metadata.ts";
export { memberBoolean, memberInteger, memberSource, memberString, memberType, memberValue } from "./json/read.ts";
export type { JsonType, ScannedJson } from "./json/read.ts";
export { replaceMember } from "./json/edit.ts";
export type { JsonText } from "./json/edit.ts";
export type { MemberName, Outline } from "./json/outline.ts";

// Look up revisions and methods.
export {
  isModernRevision,
  negotiateRevision,
  newestLegacy,
  newestModern,
  parseRevision,
  revisionNames,
  revisions,
} from "./revisions.ts";
export type { ContentKind, Era, Negotiation, ParsedRevision, Revision, RevisionFacts } from "./revisions.ts";
export { methodFacts, methodNames, methodStatus } from "./methods.ts";
export type {
  Capabilities,
  MethodDirection,
  MethodFacts,
  MethodForm,
  MethodKind,
  MethodStatus,
  NameSource,
  TimeoutClass,
} from "./methods.ts";

// Classify and check HTTP requests, and mirror bodies in headers.
export { classifyPost, classifyVerb, isJsonContentType } from "./http/era.ts";
export type { PostClassification, ServedRevisions, VerbClassification } from "./http/era.ts";
export { checkModernPost } from "./http/modern-post.ts";
export type { ModernCheckOptions, ModernCheckResult, ModernPost } from "./http/modern-post.ts";
export type { LoggingLevel, ModernEnvelope } from "./envelope.ts";
export type { ErrorResponse } from "./message.ts";
export type { ErrorCode } from "../errors.ts";
export {
  decodeHeaderValue,
  encodeHeaderValue,
  mirroredHeadersOf,
  replaceMirroredHeaders,
} from "./http/mirrored-headers.ts";
export type { HeaderLine, HeaderLookup, MirroredHeaders } from "./http/mirrored-headers.ts";
export { parseHeaderParameters } from "./http/header-parameters.ts";
export type { HeaderParameter, ParsedHeaderParameters } from "./http/header-parameters.ts";

// Validate messages.
export { validate, validationSettings } from "./validation/validate.ts";
export type {
  LevelSetting,
  ValidationContext,
  ValidationLevel,
  ValidationReport,
  ValidationSettings,
} from "./validation/validate.ts";
export { loadSchemaValidator } from "./validation/schema-validator.ts";
export type { SchemaValidator } from "./validation/schema-validator.ts";

// Split streams into messages, and label messages for logs.
export { createSseDecoder } from "./sse/decoder.ts";
export type { SseDecoder, SseDecoderOptions } from "./sse/decoder.ts";
export type { SseEnd, SseEvent, SseOverflow } from "./sse/event.ts";
export { encodePrimingEvent, encodeSseEvent, encodeSseMessage } from "./sse/encoder.ts";
export type { SseEncoding, SseEventInput } from "./sse/encoder.ts";
export { createLineReader, frameLine } from "./line-framing.ts";
export type { LineOverflow, LineReader, LineReaderOptions, LinesEnd, SkippedLine } from "./line-framing.ts";
export { createLabeler, decodeLabel, encodeLabel } from "./ids/label.ts";
export type { LabelDecoding, Labeler, LabelerOptions, LabelParts, LabelSubject } from "./ids/label.ts";
