/**
 * The members of an MCP message that anything in the product looks at, and where their spans are kept.
 * Each entry is `level.member`; adding a member here is all it takes to have it recorded by the scanner.
 */
const memberNames = [
  "jsonrpc",
  "id",
  "method",
  "params",
  "result",
  "error",
  "params.name",
  "params.uri",
  "params.arguments",
  "params._meta",
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
  "params._meta.progressToken",
  "params._meta.io.modelcontextprotocol/protocolVersion",
  "params._meta.io.modelcontextprotocol/clientCapabilities",
  "params._meta.io.modelcontextprotocol/clientInfo",
  "params._meta.io.modelcontextprotocol/logLevel",
  "params._meta.io.modelcontextprotocol/subscriptionId",
  "params._meta.io.modelcontextprotocol/related-task",
  "params._meta.traceparent",
  "params._meta.tracestate",
  "params._meta.baggage",
  "result._meta",
  "result.resultType",
  "result.isError",
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
  "result.content",
  "result.structuredContent",
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

/** A member whose place the scanner records. */
export type MemberName = (typeof memberNames)[number];

/** Where one value stands in the bytes: from `start` up to, not including, `end`. */
export interface Span {
  readonly start: number;
  readonly end: number;
}

/** What a scan found: the value's own span, and the spans of its known members. */
export interface Outline {
  readonly ok: true;
  readonly start: number;
  readonly end: number;
  /** Two numbers a slot, start and end, or -1; read it with {@link spanOf}. */
  readonly spans: readonly number[];
  /** Offset of the first duplicate member name at any depth, or -1. */
  readonly duplicateAt: number;
  /** The envelope's own id came twice, so no id can be trusted. */
  readonly duplicateId: boolean;
  /** Offset of the first member name that differs only by case from a known one beside it, or -1. */
  readonly caseVariantAt: number;
  /** Offset of the first `\u` escape of half a surrogate pair, or -1. */
  readonly loneSurrogateAt: number;
  /** The same, inside a member name or a string that routing and policy read. */
  readonly loneSurrogateInName: boolean;
}

/** Object levels that the scanner keeps members of. 0 is any other place. */
export const level = {
  other: 0,
  envelope: 1,
  params: 2,
  paramsMeta: 3,
  result: 4,
  resultMeta: 5,
  error: 6,
} as const;
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

const noSpans: readonly number[] = memberNames.flatMap(() => [-1, -1]);

/** A fresh table of spans, all absent. */
export function emptySpans(): number[] {
  return noSpans.slice();
}

/** The slot of a member that is known by name. */
export function slotOf(name: MemberName): number {
  return slotByName.get(name) ?? -1;
}

/** The slot of the plain ASCII key between two offsets, -1 if unknown, -2 if it is a known one in other case. */
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

/** The same for a key that had to be decoded, because it holds escapes or characters beyond ASCII. */
export function slotOfDecodedKey(at: Level, key: string): number {
  const slot = byText[at]?.get(key);
  if (slot !== undefined) return slot;
  return byFoldedText[at]?.has(foldCase(key)) === true ? -2 : -1;
}

/** Where a member stands, or undefined when the message does not have it. */
export function spanOf(outline: Outline, name: MemberName): Span | undefined {
  const slot = slotOf(name);
  const start = outline.spans[slot] ?? -1;
  const end = outline.spans[slot + 1] ?? -1;
  return start < 0 ? undefined : { start, end };
}

/** 0 when equal, 1 when equal but for ASCII case, 2 when different. */
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

/** Case folding as lenient JSON readers do it: the long s and the Kelvin sign fold to ASCII too. */
function foldCase(key: string): string {
  return key.replaceAll("\u017f", "s").replaceAll("\u212a", "k").toLowerCase();
}
