import { errorTable } from "../../errors.ts";
import { type Span, spanOf } from "../../protocol/json/outline.ts";
import { elementsOf, memberInteger, membersOf, memberSource, memberString, typeAt } from "../../protocol/json/read.ts";
import type { Replacement } from "../../protocol/json/edit.ts";
import type { ErrorMessage, Message, RequestMessage, ResultMessage } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import { newestLegacy, newestModern, revisions } from "../../protocol/revisions.ts";
import { editMessage, insertedMembers, type InsertedMember, type MessageEdit } from "../../protocol/message-edit.ts";
import { type AddedMember, editObject } from "../../protocol/json/edit.ts";
import { withReplacements } from "../synthesize.ts";
import { urlElicitationRequired } from "./input-requests.ts";

/** The `_meta` key under which every modern result names its server. */
export const serverInfoKey = "io.modelcontextprotocol/serverInfo";

/** What stands for a server that did not say who it is. */
export const defaultServerInfo = '{"name":"unnamed server","version":"0"}';

/** The hints on results that may be cached: a legacy server says nothing of it, so nothing is kept or shared. */
const uncached: readonly AddedMember[] = [
  ["ttlMs", "0"],
  ["cacheScope", '"private"'],
];

/**
 * A legacy server's answer as the client's modern request wants it: its id, `resultType`, cache hints, the server's
 * name, no tools that only run as tasks, and no error codes that the revision has given up.
 *
 * @param serverInfo the text of what the server said of itself in the handshake
 */
export function toModernResponse(request: RequestMessage, answer: Message, serverInfo: string): Message {
  if (answer.kind === "result") return toModernResult(request, answer, serverInfo);
  return answer.kind === "error" ? toModernError(request, answer) : answer;
}

function toModernResult(request: RequestMessage, answer: ResultMessage, serverInfo: string): Message {
  const { bytes, outline } = answer;
  const result = spanOf(outline, "result");
  if (result === undefined) return answer;
  const isCacheable = methodFacts(request.method)?.cacheable === true;
  const quick = quickResult(request, answer, result, isCacheable, serverInfo);
  if (quick !== undefined) return quick;
  const added: AddedMember[] = [["resultType", '"complete"'], ...(isCacheable ? uncached : [])];
  const meta = spanOf(outline, "result._meta");
  const hasMeta = meta !== undefined && typeAt(bytes, meta.start) === "object";
  added.push(["_meta", hasMeta ? metaWith(bytes, meta, serverInfo) : serverInfoMeta(serverInfo)]);
  const own = new Set(added.map(([name]) => name));
  const edited = editObject(
    bytes,
    result,
    (name, value) => {
      // A legacy server that writes these members means something else by them, or tries to pass for a modern one.
      if (own.has(name)) return "remove";
      const isList = request.method === "tools/list" && name === "tools";
      return isList && typeAt(bytes, value.start) === "array" ? { json: modernTools(bytes, value) } : "keep";
    },
    added,
  );
  return withReplacements(answer, [...idOf(request, answer), { span: result, bytes: edited }]);
}

/** The way of most results: another id and some members in front; undefined where more has to change. */
function quickResult(
  request: RequestMessage,
  answer: ResultMessage,
  result: Span,
  isCacheable: boolean,
  serverInfo: string,
): ResultMessage | undefined {
  const { bytes, outline, diagnostics } = answer;
  const id = spanOf(outline, "id");
  const at = result.start + 1;
  const isOther =
    diagnostics.length > 0 ||
    request.method === "tools/list" ||
    spanOf(outline, "result._meta") !== undefined ||
    (isCacheable &&
      (spanOf(outline, "result.ttlMs") !== undefined || spanOf(outline, "result.cacheScope") !== undefined));
  // An empty object would need no comma; and members usually come in the order of the specification.
  if (isOther || id === undefined || id.end > at || bytes[at] !== quote) return undefined;
  const type = spanOf(outline, "result.resultType");
  const front = prefixFor(serverInfo, isCacheable, type !== undefined);
  const edits: MessageEdit[] = [
    { span: id, bytes: Buffer.from(request.id.json) },
    { span: { start: at, end: at }, ...front },
  ];
  // A legacy server that writes this member means something else by it, or tries to pass for a modern one.
  if (type !== undefined) edits.push({ span: type, bytes: Buffer.from('"complete"') });
  return editMessage(answer, edits, { id: request.id });
}

const quote = 0x22;

/** What goes in front of the members of a result. */
interface ResultPrefix {
  readonly bytes: Buffer;
  readonly members: readonly InsertedMember[];
}

/** The same for all results of a server; one server has few of them. */
const prefixes = new Map<string, ResultPrefix[]>();
const maxPrefixes = 256;

function prefixFor(serverInfo: string, isCacheable: boolean, hasType: boolean): ResultPrefix {
  let ofServer = prefixes.get(serverInfo);
  if (ofServer === undefined) {
    if (prefixes.size >= maxPrefixes) prefixes.clear();
    ofServer = [];
    prefixes.set(serverInfo, ofServer);
  }
  const at = (isCacheable ? 2 : 0) + (hasType ? 1 : 0);
  let front = ofServer[at];
  if (front === undefined) {
    const type = hasType ? "" : '"resultType":"complete",';
    const hints = isCacheable ? uncached.map(([name, json]) => `"${name}":${String(json)},`).join("") : "";
    const text = `${type}${hints}"_meta":${serverInfoMeta(serverInfo)},`;
    front = { bytes: Buffer.from(text), members: insertedMembers(text, "result") };
    ofServer[at] = front;
  }
  return front;
}

/** The text of a `_meta` that names the server. */
export function serverInfoMeta(serverInfo: string): string {
  return `{${JSON.stringify(serverInfoKey)}:${serverInfo}}`;
}

function metaWith(bytes: Buffer, meta: Span, serverInfo: string): Buffer {
  return editObject(bytes, meta, (name) => (name === serverInfoKey ? "remove" : "keep"), [[serverInfoKey, serverInfo]]);
}

/** MCP 2026-07-28 has no `execution`: a tool that wants to be a task cannot be called, any other can without. */
function modernTools(bytes: Buffer, list: Span): Buffer {
  const tools: Buffer[] = [];
  for (const tool of elementsOf(bytes, list)) {
    if (typeAt(bytes, tool.start) !== "object") continue;
    const execution = [...membersOf(bytes, tool)].find(({ name }) => name === "execution")?.value;
    if (execution === undefined) tools.push(bytes.subarray(tool.start, tool.end));
    else if (!isTaskOnly(bytes.toString("utf8", execution.start, execution.end)))
      tools.push(editObject(bytes, tool, (name) => (name === "execution" ? "remove" : "keep")));
  }
  const parts = tools.flatMap((tool, index) => (index === 0 ? [tool] : [comma, tool]));
  return Buffer.concat([Buffer.from("["), ...parts, Buffer.from("]")]);
}

const comma = Buffer.from(",");

function isTaskOnly(execution: string): boolean {
  const value: unknown = JSON.parse(execution);
  return typeof value === "object" && value !== null && Reflect.get(value, "taskSupport") === "required";
}

function toModernError(request: RequestMessage, answer: ErrorMessage): Message {
  const replacements = idOf(request, answer);
  const error = spanOf(answer.outline, "error");
  const code = memberInteger(answer, "error.code");
  const modernCode = code === undefined ? undefined : replacedErrorCodes.get(code);
  if (error === undefined || modernCode === undefined) return withReplacements(answer, replacements);
  // What an error asks the user to open is a question, and questions do not travel in errors any more.
  const data = code === urlElicitationRequired ? undefined : notFoundData(request, answer);
  const edited = editObject(
    answer.bytes,
    error,
    (name) => {
      if (name === "data") return "remove";
      return name === "code" ? { json: String(modernCode) } : "keep";
    },
    data === undefined ? [] : [["data", data]],
  );
  return withReplacements(answer, [...replacements, { span: error, bytes: edited }]);
}

/** Error codes that modern servers must not use, and what they say instead (MCP 2026-07-28, Error Codes). */
const replacedErrorCodes: ReadonlyMap<number, number> = new Map([
  [revisions[newestLegacy].resourceNotFoundCode, revisions[newestModern].resourceNotFoundCode],
  [urlElicitationRequired, errorTable.internal.jsonrpc ?? -32603],
]);

/** MCP 2026-07-28, Resources: the data of the error names what was not found. */
function notFoundData(request: RequestMessage, answer: ErrorMessage): string | Buffer | undefined {
  const uri = memberSource(request, "params.uri");
  const span = spanOf(answer.outline, "error.data");
  const said = memberSource(answer, "error.data");
  if (uri === undefined || memberString(request, "params.uri") === undefined) return said;
  if (span === undefined || typeAt(answer.bytes, span.start) !== "object") return `{"uri":${uri}}`;
  return editObject(answer.bytes, span, (name) => (name === "uri" ? "remove" : "keep"), [["uri", uri]]);
}

function idOf(request: RequestMessage, answer: Message): Replacement[] {
  const span = spanOf(answer.outline, "id");
  return span === undefined ? [] : [{ span, bytes: Buffer.from(request.id.json) }];
}
