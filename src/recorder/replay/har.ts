import type { ExchangeRecord, Frame, FrameHttp } from "../contract.ts";

/** The creator of a HAR file. */
export interface HarCreator {
  readonly name: string;
  readonly version: string;
}

/**
 * Writes a HAR 1.2 file, one entry per exchange as the client saw it. What HAR has no member for is in `_mcp`. Server
 * messages of a call are entries of their own, with the call as `_initiator`.
 */
export async function* formatHar(
  exchanges: AsyncIterable<{ readonly record: ExchangeRecord; readonly frames: readonly Frame[] }>,
  creator: HarCreator,
): AsyncIterable<string> {
  yield `{"log":{"version":"1.2","creator":${JSON.stringify(creator)},"pages":[],"entries":[`;
  let isFirst = true;
  for await (const { record, frames } of exchanges) {
    yield `${isFirst ? "\n" : ",\n"}${JSON.stringify(harEntry(record, frames))}`;
    isFirst = false;
  }
  yield "\n]}}\n";
}

function harEntry(record: ExchangeRecord, frames: readonly Frame[]): Readonly<Record<string, unknown>> {
  const { direction, durationMs, kind, method, target } = record;
  const own = frames.filter(({ leg }) => leg === "client");
  const asking = own.find((frame) => frame.kind === "request" || frame.kind === "notification");
  const answer = own.findLast((frame) => frame.kind === "result" || frame.kind === "error");
  const context = frames.find((frame) => frame.context !== undefined)?.context;
  const headers = Object.entries(context?.http?.headers ?? {}).map(([name, value]) => ({ name, value }));
  const url = urlOf(record, context?.http);
  const status = answer === undefined ? (kind === "notification" ? 202 : 0) : 200;
  return {
    startedDateTime: new Date(record.at).toISOString(),
    time: durationMs ?? 0,
    request: {
      method: context?.http?.method ?? "POST",
      url,
      httpVersion: "HTTP/1.1",
      cookies: [],
      headers,
      queryString: [...(URL.parse(url)?.searchParams ?? [])].map(([name, value]) => ({ name, value })),
      postData: { mimeType: "application/json", text: asking?.body ?? "" },
      headersSize: -1,
      bodySize: record.requestBytes,
    },
    response: {
      status,
      statusText: status === 0 ? "" : status === 202 ? "Accepted" : "OK",
      httpVersion: "HTTP/1.1",
      cookies: [],
      headers: [],
      content: { size: record.answerBytes, mimeType: "application/json", text: answer?.body ?? "" },
      redirectURL: "",
      headersSize: -1,
      bodySize: record.answerBytes,
    },
    cache: {},
    timings: { send: 0, wait: durationMs ?? 0, receive: 0 },
    ...(context?.http?.peer === undefined ? {} : { _clientIPAddress: context.http.peer }),
    ...(record.parent === undefined ? {} : { _initiator: { type: "mcp", exchange: record.parent } }),
    _mcp: {
      capture: record.capture,
      exchange: record.id,
      operation: record.operation,
      direction,
      method,
      target,
      state: record.state,
      principal: record.principal,
      route: record.route,
      revision: record.revision,
      transport: record.transport,
      decision: record.decision,
      rule: record.rule,
      redacted: record.redacted,
      omitted: record.omitted,
      upstreamMs: record.upstreamMs,
    },
  };
}

/** The URL that the client used; messages without HTTP get a scheme of their own. */
function urlOf({ route, method, transport }: ExchangeRecord, http: FrameHttp | undefined): string {
  return http === undefined
    ? `mcp+${transport}://${encodeURIComponent(route)}/${method}`
    : `${http.origin ?? "http://headgate.invalid"}${http.path}`;
}
