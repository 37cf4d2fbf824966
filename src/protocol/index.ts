/** Public surface of the protocol core: `import { parse } from "headgate/protocol"`. */

// For everybody: messages in, facts out.
export { parse, parseBatch, parseMessage, parseText, peek } from "./parse.ts";
export type { ParseContext, Peeked } from "./parse.ts";
export { metadataOf, pointerOf } from "./metadata.ts";
export type { MessageMetadata, RelatedRequest, MessageTarget, TraceContext, TransportHints } from "./metadata.ts";
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
  ParseLimits,
  ParseOutcome,
  RequestId,
  RequestMessage,
  ResultMessage,
} from "./message.ts";
export { idFrom } from "./message.ts";
export { combineAnswers, groupByKind, messageBytes } from "./message.ts";
export type { GroupedMessages } from "./message.ts";

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
export { classifyPost, classifyVerb, isJsonContentType } from "./http/era.ts";
export type { PostClassification, ServedRevisions, VerbClassification } from "./http/era.ts";
export { checkModernPost } from "./http/modern-post.ts";
export type { ModernCheckOptions, ModernPost, ModernCheckResult } from "./http/modern-post.ts";
export {
  checkNameHeader,
  checkParameterHeaders,
  mirroredHeadersOf,
  replaceMirroredHeaders,
} from "./http/mirrored-headers.ts";
export type { HeaderLine, HeaderLookup, HeaderMismatch, MirroredHeaders } from "./http/mirrored-headers.ts";
export { parseHeaderParameters } from "./http/header-parameters.ts";
export type { HeaderParameter, ParsedHeaderParameters } from "./http/header-parameters.ts";
export { decodeHeaderValue, encodeHeaderValue } from "./http/mirrored-headers.ts";
export type { ErrorResponse } from "./error-response.ts";

// Validation levels.
export { validate, validationLevels, validationSettings } from "./validation/validate.ts";
export type {
  ValidationContext,
  ValidationLevel,
  ValidationReport,
  ValidationSettings,
} from "./validation/validate.ts";
export { loadSchemaValidator } from "./validation/schema-validator.ts";
export type { SchemaValidator } from "./validation/schema-validator.ts";
export {
  checkAnswer,
  checkCapability,
  checkIdReuse,
  checkInputRequired,
  checkMirroredHeaders,
  checkProgress,
  checkRetry,
  warnUnknownRevision,
} from "./validation/semantic.ts";

// Framing and labels.
export { createSseDecoder } from "./sse/decoder.ts";
export type { SseDecoder, SseDecoderOptions } from "./sse/decoder.ts";
export type { SseEnd, SseEvent, SseOverflow } from "./sse/event.ts";
export { encodePrimingEvent, encodeSseEvent, encodeSseMessage } from "./sse/encoder.ts";
export type { SseEncoding, SseEventInput } from "./sse/encoder.ts";
export { createLineReader, frameLine } from "./line-framing.ts";
export type { LineOverflow, LineReader, LineReaderOptions, LinesEnd } from "./line-framing.ts";
export { createLabeler, decodeLabel, encodeLabel } from "./ids/label.ts";
export type { Labeler, LabelDecoding, LabelParts, LabelSubject } from "./ids/label.ts";

// For other libraries: what gateways in front of plain HTTP need.
export { mcpContextOf } from "./http/mcp-context.ts";
export type { McpContext, ParsedMcpContext } from "./http/mcp-context.ts";
export { bodyAfterPolicy, finalResponseOf, isEventStreamContentType } from "./sse/final-response.ts";
export type { ClientBody, EventStreamBody, FinalResponse, PolicyResult } from "./sse/final-response.ts";

// Source-preserving reading and splicing of members.
export { memberBoolean, memberInteger, memberSource, memberString, memberType, memberValue } from "./json/read.ts";
export type { JsonType, ScannedJson } from "./json/read.ts";
export { insertMember, replaceMember, splice } from "./json/edit.ts";
export type { Replacement } from "./json/edit.ts";
export { spanOf } from "./json/outline.ts";
export type { MemberName, Outline, Span } from "./json/outline.ts";
