/** Which revision the benchmark's calls speak: one of sessions, or one where every request stands alone. */
export type CallEra = "legacy" | "modern";

/** A place to send calls to. */
export interface Target {
  readonly url: string;
  readonly era: CallEra;
  /** Sent as the Authorization header with everything. */
  readonly authorization?: string | undefined;
  /** The length of a legacy call's body; {@link callBytes} unless given. */
  readonly bytes?: number | undefined;
  /** Which tool is called; `echo` unless given. */
  readonly tool?: string | undefined;
}

/** A call as it goes over the wire: what stands before its id, and after. */
export interface CallTemplate {
  readonly before: string;
  readonly after: string;
}

/** Ids have one length, so that all calls have the same. */
export const firstId = 1_000_000;
export const lastId = 9_999_999;

/** The length of a legacy call's body. */
export const callBytes = 150;

const revisionOf = { legacy: "2025-11-25", modern: "2026-07-28" } as const;

/** The headers that every POST of an era has. */
export function postHeaders(era: CallEra, session: string | undefined): Record<string, string> {
  return {
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    "mcp-protocol-version": revisionOf[era],
    ...(session === undefined ? {} : { "mcp-session-id": session }),
  };
}

/** The body of a `tools/call` of this length, and in the modern era its envelope besides. */
export function callBody(era: CallEra, id: number, tool: string, bytes: number = callBytes): string {
  const envelope = {
    "io.modelcontextprotocol/protocolVersion": revisionOf.modern,
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  const bodyWith = (text: string, meta: object) =>
    JSON.stringify({
      jsonrpc: "2.0",
      id,
      method: "tools/call",
      params: { name: tool, arguments: { text }, ...meta },
    });
  const text = "x".repeat(bytes - bodyWith("", {}).length);
  return bodyWith(text, era === "modern" ? { _meta: envelope } : {});
}

/**
 * Made once for all connections and rounds: where many sessions take turns, making them anew would take the generator
 * longer than the call, and be counted as the server's time.
 */
const templates = new Map<string, Map<string | undefined, CallTemplate>>();

/** Gives whole POSTs of calls by their session, to be sent over and over with other ids. */
export function callTemplates(target: Target): (session: string | undefined) => CallTemplate {
  const { url, era, authorization = "", bytes = callBytes, tool = "echo" } = target;
  const key = `${era} ${url} ${authorization} ${bytes} ${tool}`;
  const own = templates.get(key) ?? new Map<string | undefined, CallTemplate>();
  templates.set(key, own);
  return (session) => {
    let template = own.get(session);
    if (template === undefined) {
      template = makeTemplate(target, session);
      own.set(session, template);
    }
    return template;
  };
}

function makeTemplate(
  { url, era, authorization, bytes, tool = "echo" }: Target,
  session: string | undefined,
): CallTemplate {
  const { host, pathname } = new URL(url);
  const body = callBody(era, firstId, tool, bytes);
  const headers = {
    host,
    ...(authorization === undefined ? {} : { authorization }),
    ...postHeaders(era, session),
    ...(era === "modern" ? { "mcp-method": "tools/call", "mcp-name": tool } : {}),
    "content-length": String(body.length),
  };
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  const whole = `POST ${pathname} HTTP/1.1\r\n${lines.join("")}\r\n${body}`;
  const id = String(firstId);
  const idAt = whole.indexOf(`"id":${id}`) + '"id":'.length;
  return { before: whole.slice(0, idAt), after: whole.slice(idAt + id.length) };
}
