/** Public surface of the protocol core: `import { parse } from "headgate/protocol"`. */

// For everybody: messages in, facts out.
export { parse, parseBatch, parseMessage, parseText, peek } from "./parse.ts";
export type { ParseContext, Peeked } from "./parse.ts";
export { metadataOf, pointerOf } from "./metadata.ts";
export type {
  MessageMetadata,
  RelatedRequest,
  MessageTarget,
  TraceContext,
  TransportHints,
} from "./metadata.ts";
export { defaultLimits, reverseDirection, stdioLineLimit } from "./message.ts";
export type {
  Diagnostic,
  Direction,
  ErrorMessage,
  FailureReason,
  Message,
  MessageOutcome,
  NotificationMessage,
  ParseFailure,
  ParseFailureCode,
  ParseLimits,
  ParseOutcome,
  RequestId,
  RequestMessage,
  ResultMessage,
} from "./message.ts";
export { idFrom, idValue } from "./ids.ts";
export { combineAnswers, groupByKind, messageBytes } from "./batch.ts";
export type { GroupedMessages } from "./batch.ts";

// Facts of the revisions.
export {
  acceptServerRevision,
  revisionWithoutHeader,
  isModernRevision,
  negotiateRevision,
  newestCommonRevision,
  newestLegacy,
  newestModern,
  parseRevision,
  revisionNames,
  revisions,
} from "./revisions.ts";
export type { ContentKind, Era, Negotiation, Revision, RevisionFacts, ParsedRevision } from "./revisions.ts";
export { methodFacts, methodNames, methodStatus } from "./methods.ts";
export type { MethodFacts, MethodStatus } from "./methods.ts";

// HTTP: eras, modern checks, mirrored headers.
export { classifyPost, classifyVerb, isJsonContentType } from "./era.ts";
export type { PostClassification, ServedRevisions, VerbClassification } from "./era.ts";
export { checkModernPost, modernCheckNames } from "./modern.ts";
export type { ModernCheckOptions, ModernPost, ModernCheckResult } from "./modern.ts";
export {
  checkNameHeader,
  checkParameterHeaders,
  mirroredHeadersOf,
  replaceMirroredHeaders,
} from "./mirrored-headers.ts";
export type { HeaderLine, HeaderLookup, HeaderMismatch, MirroredHeaders } from "./mirrored-headers.ts";
export { parseHeaderParameters } from "./header-parameters.ts";
export type { HeaderParameter, ParsedHeaderParameters } from "./header-parameters.ts";
export { decodeHeaderValue, encodeHeaderValue } from "./header-values.ts";
export type { ErrorResponse } from "./refusal.ts";

// Validation levels.
export { validate, validationLevels, validationSettings } from "./validation.ts";
export type {
  ValidationContext,
  ValidationLevel,
  ValidationReport,
  ValidationSettings,
} from "./validation.ts";
export { loadSchemaValidator } from "./validation-schema.ts";
export type { SchemaValidator } from "./validation-schema.ts";
export {
  checkAnswer,
  checkCapability,
  checkIdReuse,
  checkInputRequired,
  checkMirroredHeaders,
  checkProgress,
  checkRetry,
  warnUnknownRevision,
} from "./validation-semantic.ts";

// Framing and labels.
export { createSseDecoder } from "./sse-decoder.ts";
export type { SseDecoder, SseDecoderOptions } from "./sse-decoder.ts";
export type { SseEnd, SseEvent, SseOverflow } from "./sse-event.ts";
export { encodePrimingEvent, encodeSseComment, encodeSseEvent, encodeSseMessage } from "./sse-encoder.ts";
export type { SseEncoding, SseEventInput } from "./sse-encoder.ts";
export { createLineReader, frameLine } from "./line-framing.ts";
export type { LineOverflow, LineReader, LineReaderOptions, LinesEnd } from "./line-framing.ts";
export { createLabeler, decodeLabel, encodeLabel } from "./label.ts";
export type { Labeler, LabelDecoding, LabelParts, LabelSubject } from "./label.ts";

// For other libraries: what gateways in front of plain HTTP need.
export { mcpContextOf } from "./mcp-context.ts";
export type { McpContext, ParsedMcpContext } from "./mcp-context.ts";
export {
  bodyAfterPolicy,
  createFinalResponseReader,
  finalResponseOf,
  isEventStreamContentType,
} from "./sse-final-response.ts";
export type {
  ClientBody,
  EventStreamBody,
  FinalResponse,
  FinalResponseReader,
  PolicyResult,
} from "./sse-final-response.ts";

// Source-preserving reading and splicing of members.
export {
  memberBoolean,
  memberInteger,
  memberSource,
  memberString,
  memberType,
  memberValue,
} from "./json/read.ts";
export type { JsonType, ScannedJson } from "./json/read.ts";
export { insertMember, replaceMember, splice } from "./json/splice.ts";
export type { Replacement } from "./json/splice.ts";
export { spanOf } from "./json/outline.ts";
export type { MemberName, Outline, Span } from "./json/outline.ts";
