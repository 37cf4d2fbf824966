import { parse } from "../parse.ts";
import { isSseField, type SseEvent } from "./event.ts";
import { createSseDecoder } from "./decoder.ts";
import { encodeDataLines, lineBounds } from "./encoder.ts";

/** The part of a response body that a policy decision point sees. */
export type FinalResponse =
  /** The data of one event, whose block is `[start, end)` of the body. */
  | { readonly extracted: true; readonly text: string; readonly start: number; readonly end: number }
  /** The whole body. */
  | { readonly extracted: false; readonly text: string };

/** An upstream response that may be an event stream. */
export interface EventStreamBody {
  /** If false, the whole body is used. */
  readonly enableMcp: boolean;
  readonly contentType: string | undefined;
  readonly body: Buffer;
}

/** The response as the policy returned it. */
export interface PolicyResult {
  readonly body: string;
  readonly contentType: string | undefined;
  readonly denied: boolean;
}

/** The body for the client, and where it comes from: only the upstream's body keeps its content encoding. */
export interface ClientBody {
  readonly body: Buffer;
  readonly from: "upstream" | "spliced" | "result";
}

/** Whether a content type is that of an event stream, ignoring case and parameters. */
export function isEventStreamContentType(contentType: string | undefined): boolean {
  const [mediaType = ""] = (contentType ?? "").split(";", 1);
  return mediaType.trim().toLowerCase() === "text/event-stream";
}

/**
 * Whether `data` is a JSON-RPC response: an object with an id and a result or an error. A result or error of the wrong
 * type counts too, because a careless client may still read it.
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

/**
 * The body that the policy decision point sees: the last JSON-RPC response of an event stream, otherwise the whole
 * body. An unfinished event does not count, because no client dispatches it. At most one event is kept at a time.
 */
export function finalResponseOf(response: EventStreamBody): FinalResponse {
  const { enableMcp, contentType, body } = response;
  const last = enableMcp && isEventStreamContentType(contentType) ? lastResponse(body) : undefined;
  if (last === undefined) return { extracted: false, text: body.toString("utf8") };
  // The body is decoded as one chunk, so the event's bytes are a view of it.
  const start = last.raw.byteOffset - body.byteOffset;
  return { extracted: true, text: last.data.toString("utf8"), start, end: start + last.raw.length };
}

function lastResponse(body: Buffer): SseEvent | undefined {
  let last: SseEvent | undefined;
  const decoder = createSseDecoder({
    maxEventBytes: body.length + 1,
    onEvent: (event) => {
      if (event.kind === "data" && isJsonRpcResponse(event.data)) last = event;
    },
  });
  decoder.push(body);
  return last;
}

/**
 * The body for the client after the policy has `seen` its part. A changed response replaces the data of its event and no
 * other byte. If the policy denied, or returned another content type, its own body is sent.
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

/** Replaces the data lines of a block, at the place of the first one and with its line end. */
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
