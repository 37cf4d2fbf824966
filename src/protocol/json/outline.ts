/**
 * The members whose positions the scanner records, as `level.member`. To have another one recorded, add it at the end: those
 * of a call and its answer come first, because the spans of a message end with the last member that it has.
 */
const memberNames = [
  "jsonrpc",
  "id",
  "method",
  "params",
  "result",
  "error",
  "params.name",
  "params.arguments",
  "params._meta",
  "result.content",
  "result.isError",
  "result.resultType",
  "result.structuredContent",
  "result._meta",
  "params._meta.progressToken",
  "params._meta.io.modelcontextprotocol/protocolVersion",
  "params._meta.io.modelcontextprotocol/clientCapabilities",
  "params._meta.io.modelcontextprotocol/clientInfo",
  "params.uri",
  "params.requestId",
  "params.progressToken",
  "params.progress",
  "params.taskId",
  "params.task",
  "params.cursor",
  "params.ref",
  "params.protocolVersion",
  "params.capabilities",
  "params.clientInfo",
  "params.level",
  "params.requestState",
  "params.inputResponses",
  "params.inputRequests",
  "params.notifications",
  "params._meta.io.modelcontextprotocol/logLevel",
  "params._meta.io.modelcontextprotocol/subscriptionId",
  "params._meta.io.modelcontextprotocol/related-task",
  "params._meta.traceparent",
  "params._meta.tracestate",
  "params._meta.baggage",
  "result.requestState",
  "result.inputRequests",
  "result.taskId",
  "result.task",
  "result.protocolVersion",
  "result.capabilities",
  "result.serverInfo",
  "result.instructions",
  "result.supportedVersions",
  "result.tools",
  "result.prompts",
  "result.resources",
  "result.resourceTemplates",
  "result.nextCursor",
  "result.contents",
  "result.messages",
  "result.completion",
  "result.ttlMs",
  "result.cacheScope",
  "result._meta.io.modelcontextprotocol/serverInfo",
  "result._meta.io.modelcontextprotocol/subscriptionId",
  "result._meta.io.modelcontextprotocol/related-task",
  "error.code",
  "error.message",
  "error.data",
] as const;

/** A member whose position the scanner records. */
export type MemberName = (typeof memberNames)[number];

/** The position of a value in the bytes; `end` is exclusive. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** The position of a JSON value and of its known members, and what is odd about it. */
export interface Outline {
  readonly ok: true;
  readonly start: number;
  readonly end: number;
  /** Start and end of each known member, or -1, up to the last one that is there; read it with `spanOf`. */
  readonly spans: readonly number[];
  /** Offset of the first duplicate member name at any depth, or -1. */
  readonly duplicateAt: number;
  /** Whether the id of the message is a duplicate, so that neither can be trusted. */
  readonly duplicateId: boolean;
  /** Offset of the first member name that differs from a known one only by case, or -1. */
  readonly caseVariantAt: number;
  /** Offset of the first `\u` escape of a lone surrogate, or -1. */
  readonly loneSurrogateAt: number;
  /** Whether a member name, or a string that routing and policy read, contains a lone surrogate. */
  readonly loneSurrogateInName: boolean;
}

/** The objects whose members the scanner records; 0 is any other place. */
export const level = { other: 0, envelope: 1, params: 2, paramsMeta: 3, result: 4, resultMeta: 5, error: 6 } as const;
export type Level = (typeof level)[keyof typeof level];

const levelPrefixes: readonly (readonly [prefix: string, level: Level])[] = [
  ["params._meta.", level.paramsMeta],
  ["result._meta.", level.resultMeta],
  ["params.", level.params],
  ["result.", level.result],
  ["error.", level.error],
  ["", level.envelope],
];

interface KnownKey {
  readonly bytes: Uint8Array;
  readonly slot: number;
}

const slotByName = new Map<string, number>();
const byLength: KnownKey[][][] = [];
const byText: Map<string, number>[] = [];
const byFoldedText: Map<string, number>[] = [];

for (const [index, name] of memberNames.entries()) {
  const slot = index * 2;
  slotByName.set(name, slot);
  const [prefix, at] = levelPrefixes.find(([candidate]) => name.startsWith(candidate)) ?? ["", level.envelope];
  const key = name.slice(prefix.length);
  const lengths = (byLength[at] ??= []);
  (lengths[key.length] ??= []).push({ bytes: Buffer.from(key), slot });
  (byText[at] ??= new Map()).set(key, slot);
  (byFoldedText[at] ??= new Map()).set(foldCase(key), slot);
}

/** A new table of spans, all absent. */
export function emptySpans(): number[] {
  return memberNames.flatMap(() => [-1, -1]);
}

/** The slot of a known member. */
export function slotOf(name: MemberName): number {
  return slotByName.get(name) ?? -1;
}

/** The slot of the ASCII key between two offsets; -1 if unknown, -2 if it differs from a known key only by case. */
export function slotOfKey(at: Level, bytes: Uint8Array, start: number, end: number): number {
  const candidates = byLength[at]?.[end - start];
  if (candidates === undefined) return -1;
  for (const candidate of candidates) {
    const difference = compareKey(candidate.bytes, bytes, start);
    if (difference === 0) return candidate.slot;
    if (difference === 1) return -2;
  }
  return -1;
}

/** The same for a key with escapes or non-ASCII characters, after decoding. */
export function slotOfDecodedKey(at: Level, key: string): number {
  const slot = byText[at]?.get(key);
  if (slot !== undefined) return slot;
  return byFoldedText[at]?.has(foldCase(key)) === true ? -2 : -1;
}

/** The position of a member, or undefined if the message does not have it. */
export function spanOf(outline: Outline, name: MemberName): Span | undefined {
  const slot = slotOf(name);
  const start = outline.spans[slot] ?? -1;
  const end = outline.spans[slot + 1] ?? -1;
  return start < 0 ? undefined : { start, end };
}

/** 0 if equal, 1 if equal except for ASCII case, 2 if different. */
function compareKey(known: Uint8Array, bytes: Uint8Array, start: number): 0 | 1 | 2 {
  let folded: 0 | 1 = 0;
  for (let index = 0; index < known.length; index++) {
    const a = known[index] ?? 0;
    const b = bytes[start + index] ?? 0;
    if (a === b) continue;
    const letter = a | 0x20;
    if (letter !== (b | 0x20) || letter < 0x61 || letter > 0x7a) return 2;
    folded = 1;
  }
  return folded;
}

/** Folds case like lenient JSON readers, which fold the long s and the Kelvin sign to ASCII too. */
function foldCase(key: string): string {
  return key.replaceAll("\u017f", "s").replaceAll("\u212a", "k").toLowerCase();
}
