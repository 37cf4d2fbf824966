import { errorTable } from "../../errors.ts";
import { type AddedMember, arrayText, editObject, type Replacement } from "../../protocol/json/edit.ts";
import { type Span, spanOf } from "../../protocol/json/outline.ts";
import { elementsOf, memberInteger, membersOf, memberSource, memberString, typeAt } from "../../protocol/json/read.ts";
import type { ErrorMessage, Message, RequestMessage, ResultMessage } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import { newestLegacy, newestModern, revisions } from "../../protocol/revisions.ts";
import { withReplacements } from "../../core/synthesize.ts";
import { urlElicitationRequired } from "./input-requests.ts";

/** The `_meta` key under which every modern result names its server. */
export const serverInfoKey = "io.modelcontextprotocol/serverInfo";

/** Stands for a server that did not name itself. */
export const defaultServerInfo = '{"name":"unnamed server","version":"0"}';

/** Cache hints of cacheable results. A legacy server gives none, so the result must not be cached or shared. */
const uncached: readonly AddedMember[] = [
  ["ttlMs", "0"],
  ["cacheScope", '"private"'],
];

/**
 * A legacy server's response in its modern form: with the id of the client's request, `resultType`, cache hints and
 * `serverInfo`, without tools that only run as tasks and without error codes that the modern revision has dropped.
 *
 * @param serverInfo the JSON text of the server's `serverInfo` from the handshake
 */
export function toModernResponse(request: RequestMessage, response: Message, serverInfo: string): Message {
  if (response.kind === "result") return toModernResult(request, response, serverInfo);
  return response.kind === "error" ? toModernError(request, response) : response;
}

function toModernResult(request: RequestMessage, response: ResultMessage, serverInfo: string): Message {
  const { bytes, outline } = response;
  const result = spanOf(outline, "result");
  if (result === undefined) return response;
  const isCacheable = methodFacts(request.method)?.cacheable === true;
  const meta = spanOf(outline, "result._meta");
  const hasMeta = meta !== undefined && typeAt(bytes, meta.start) === "object";
  const added: AddedMember[] = [
    ["resultType", '"complete"'],
    ...(isCacheable ? uncached : []),
    ["_meta", hasMeta ? metaWith(bytes, meta, serverInfo) : serverInfoMeta(serverInfo)],
  ];
  const edited = editObject(
    bytes,
    result,
    (name, value) => {
      // On a legacy server these members have another meaning, or imitate a modern server.
      if (added.some(([own]) => own === name)) return "remove";
      const isToolList = request.method === "tools/list" && name === "tools";
      return isToolList && typeAt(bytes, value.start) === "array" ? { json: modernTools(bytes, value) } : "keep";
    },
    added,
  );
  return withReplacements(response, [...idReplacement(request, response), { span: result, bytes: edited }]);
}

/** The JSON text of a `_meta` that names the server. */
export function serverInfoMeta(serverInfo: string): string {
  return `{${JSON.stringify(serverInfoKey)}:${serverInfo}}`;
}

function metaWith(bytes: Buffer, meta: Span, serverInfo: string): Buffer {
  return editObject(bytes, meta, (name) => (name === serverInfoKey ? "remove" : "keep"), [[serverInfoKey, serverInfo]]);
}

/** MCP 2026-07-28 has no `execution`: a tool that requires a task cannot be called, any other can without one. */
function modernTools(bytes: Buffer, list: Span): Buffer {
  const tools: Buffer[] = [];
  for (const tool of elementsOf(bytes, list)) {
    if (typeAt(bytes, tool.start) !== "object") continue;
    const execution = [...membersOf(bytes, tool)].find(({ name }) => name === "execution")?.value;
    if (execution === undefined) tools.push(bytes.subarray(tool.start, tool.end));
    else if (!requiresTask(bytes.toString("utf8", execution.start, execution.end)))
      tools.push(editObject(bytes, tool, (name) => (name === "execution" ? "remove" : "keep")));
  }
  return arrayText(tools);
}

function requiresTask(execution: string): boolean {
  const value: unknown = JSON.parse(execution);
  return typeof value === "object" && value !== null && Reflect.get(value, "taskSupport") === "required";
}

function toModernError(request: RequestMessage, response: ErrorMessage): Message {
  const replacements = idReplacement(request, response);
  const error = spanOf(response.outline, "error");
  const code = memberInteger(response, "error.code");
  const modernCode = code === undefined ? undefined : replacedErrorCodes.get(code);
  if (error === undefined || modernCode === undefined) return withReplacements(response, replacements);
  // The URLs that the error asks the user to open are input requests, which errors no longer carry.
  const data = code === urlElicitationRequired ? undefined : notFoundData(request, response);
  const edited = editObject(
    response.bytes,
    error,
    (name) => {
      if (name === "data") return "remove";
      return name === "code" ? { json: String(modernCode) } : "keep";
    },
    data === undefined ? [] : [["data", data]],
  );
  return withReplacements(response, [...replacements, { span: error, bytes: edited }]);
}

/** Error codes that modern servers must not use, and their replacements (MCP 2026-07-28, Error Codes). */
const replacedErrorCodes: ReadonlyMap<number, number> = new Map([
  [revisions[newestLegacy].resourceNotFoundCode, revisions[newestModern].resourceNotFoundCode],
  [urlElicitationRequired, errorTable.internal.jsonrpc ?? -32603],
]);

/** MCP 2026-07-28, Resources: the data of the error names the URI that was not found. */
function notFoundData(request: RequestMessage, response: ErrorMessage): string | Buffer | undefined {
  const uri = memberSource(request, "params.uri");
  const span = spanOf(response.outline, "error.data");
  if (uri === undefined || memberString(request, "params.uri") === undefined)
    return memberSource(response, "error.data");
  if (span === undefined || typeAt(response.bytes, span.start) !== "object") return `{"uri":${uri}}`;
  return editObject(response.bytes, span, (name) => (name === "uri" ? "remove" : "keep"), [["uri", uri]]);
}

function idReplacement(request: RequestMessage, response: Message): Replacement[] {
  const span = spanOf(response.outline, "id");
  return span === undefined ? [] : [{ span, bytes: Buffer.from(request.id.json) }];
}
