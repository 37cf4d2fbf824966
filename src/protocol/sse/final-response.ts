import { lineBounds } from "./line-end.ts";
import { parse } from "../parse.ts";
import { isSseField, type SseEvent } from "./event.ts";
import { createSseDecoder } from "./decoder.ts";
import { encodeDataLines } from "./encoder.ts";

/** What of a response body a policy decision point gets to see. */
export type FinalResponse =
  /** The data of one event, which stands in the body at `[start, end)` with its whole block. */
  | { readonly extracted: true; readonly text: string; readonly start: number; readonly end: number }
  /** The body as it is. */
  | { readonly extracted: false; readonly text: string };

/** An upstream response, as far as this is about it. */
export interface EventStreamBody {
  /** Without it every body is taken as it is. */
  readonly enableMcp: boolean;
  readonly contentType: string | undefined;
  readonly body: Buffer;
  /** Judges the data of an event; {@link isJsonRpcResponse} unless given. */
  readonly isResponse?: (data: Buffer) => boolean;
}

/** What a policy made of a response. */
export interface PolicyResult {
  readonly body: string;
  readonly contentType: string | undefined;
  readonly denied: boolean;
}

/** The body for the client, and whose it is: only the upstream's keeps its content encoding. */
export interface ClientBody {
  readonly body: Buffer;
  readonly from: "upstream" | "spliced" | "result";
}

/** Whether a content type header names an event stream, whatever its case and parameters. */
export function isEventStreamContentType(contentType: string | undefined): boolean {
  const [mediaType = ""] = (contentType ?? "").split(";", 1);
  return mediaType.trim().toLowerCase() === "text/event-stream";
}

/**
 * Whether `data` is a JSON-RPC response to a request: an object with an id and a result or an error. One that MCP would
 * refuse for the type of these counts as well, because a careless client may still read it.
 */
export function isJsonRpcResponse(data: Buffer): boolean {
  const outcome = parse(data, { revision: "unknown", mode: "observe" });
  if (!outcome.ok) return outcome.failure.id !== undefined && responseFaults.has(outcome.failure.reason);
  if (outcome.form === "batch") return false;
  const { kind, id } = outcome.message;
  return (kind === "result" || kind === "error") && id !== undefined;
}

const responseFaults: ReadonlySet<string> = new Set([
  "response.both",
  "result.type",
  "error.type",
  "error.code",
  "error.message",
]);

/** Finds the last response in an event stream that arrives in chunks. */
export interface FinalResponseReader {
  /** Looks at the events that `chunk` completes. */
  push(chunk: Uint8Array): void;
  /** The last event that was a response, if any; the reader is then as new. */
  end(): SseEvent | undefined;
}

/** Makes a reader that keeps one event at most, however long the stream is; events over the limit are passed over. */
export function createFinalResponseReader(options: {
  readonly maxEventBytes: number;
  /** Judges the data of an event; {@link isJsonRpcResponse} unless given. */
  readonly isResponse?: (data: Buffer) => boolean;
}): FinalResponseReader {
  const { maxEventBytes, isResponse = isJsonRpcResponse } = options;
  let last: SseEvent | undefined;
  const decoder = createSseDecoder({
    maxEventBytes,
    onEvent(event) {
      if (event.kind === "data" && isResponse(event.data)) last = event;
    },
  });
  return {
    push(chunk) {
      decoder.push(chunk);
    },
    end() {
      const found = last;
      last = undefined;
      decoder.end();
      return found;
    },
  };
}

/**
 * What the policy decision point gets as the body of a response: of an event stream the last event that is a JSON-RPC
 * response, of anything else, and of a stream without one, the body unchanged. An event that the stream leaves
 * unfinished does not count, since no client dispatches it. No more than one event is kept at a time.
 */
export function finalResponseOf(response: EventStreamBody): FinalResponse {
  const { enableMcp, contentType, body, isResponse = isJsonRpcResponse } = response;
  const reader = createFinalResponseReader({ maxEventBytes: body.length + 1, isResponse });
  if (enableMcp && isEventStreamContentType(contentType)) reader.push(body);
  const last = reader.end();
  if (last === undefined) return { extracted: false, text: body.toString("utf8") };
  // The body is decoded as one chunk, so the event's bytes are a view of it.
  const start = last.raw.byteOffset - body.byteOffset;
  return { extracted: true, text: last.data.toString("utf8"), start, end: start + last.raw.length };
}

/**
 * The body that goes to the client after the policy had `seen` its part of it. A changed response takes the place of
 * the event's data with all other bytes left alone, unless the policy denied or no longer says it is an event stream:
 * then the result's own body goes out.
 */
export function bodyAfterPolicy(upstream: Buffer, seen: FinalResponse, result: PolicyResult): ClientBody {
  const unchanged = result.body === seen.text;
  if (!seen.extracted && unchanged) return { body: upstream, from: "upstream" };
  if (!seen.extracted || result.denied || !isEventStreamContentType(result.contentType)) {
    return { body: Buffer.from(result.body), from: "result" };
  }
  if (unchanged) return { body: upstream, from: "upstream" };
  const block = replaceData(upstream.subarray(seen.start, seen.end), Buffer.from(result.body));
  const body = Buffer.concat([upstream.subarray(0, seen.start), block, upstream.subarray(seen.end)]);
  return { body, from: "spliced" };
}

/** Puts `data` where the first data line of the block stands, in its style of line end, and takes the others out. */
function replaceData(block: Buffer, data: Buffer): Buffer {
  const bounds = lineBounds(block);
  const parts: Buffer[] = [];
  let placed = false;
  for (let i = 0; i < bounds.length; i += 2) {
    const start = bounds[i] ?? 0;
    const end = bounds[i + 1] ?? 0;
    const next = bounds[i + 2] ?? block.length;
    if (!isSseField("data", block, start, end)) {
      parts.push(block.subarray(start, next));
    } else if (!placed) {
      parts.push(encodeDataLines(data, block.subarray(end, next)));
      placed = true;
    }
  }
  return Buffer.concat(parts);
}
