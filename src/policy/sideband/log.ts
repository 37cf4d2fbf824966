import type { EnginePhase, SidebandLogEntry } from "./contract.ts";
import { isJsonRecord, parseJson } from "./payload.ts";
import type { SidebandSettings } from "./settings.ts";

/** Writes log entries of one phase. */
export type PhaseLog = (
  level: SidebandLogEntry["level"],
  msg: string,
  fields?: Readonly<Record<string, unknown>>,
) => void;

/** Makes the writer for a phase; every entry carries the same head (PA-133). */
export function createPhaseLog(
  write: (entry: SidebandLogEntry) => void,
  head: { readonly plugin: string; readonly phase: EnginePhase; readonly service_url: string },
): PhaseLog {
  return (level, msg, fields = {}) => write({ ...head, level, msg, ...fields });
}

/** The fields of an entry for loggers that take plain values only: what is an object becomes its JSON text. */
export function toPlainFields(
  entry: SidebandLogEntry,
): Readonly<Record<string, string | number | boolean | undefined>> {
  return Object.fromEntries(
    Object.entries(entry).flatMap(([name, value]) =>
      name === "level" || name === "msg" ? [] : [[name, isPlain(value) ? value : JSON.stringify(value)]],
    ),
  );
}

function isPlain(value: unknown): value is string | number | boolean | undefined {
  return value === undefined || ["string", "number", "boolean"].includes(typeof value);
}

const redacted = "[REDACTED]";

/** Cuts a text to so many bytes, ending on a whole character, and says how long it was; 0 for no limit (PA-137). */
export function truncateText(text: string, maxBytes: number): string {
  const total = Buffer.byteLength(text);
  if (maxBytes === 0 || total <= maxBytes) return text;
  const bytes = Buffer.from(text);
  let end = maxBytes;
  // A byte of the form 10xxxxxx goes on a character that began before it.
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end--;
  return `${bytes.toString("utf8", 0, end)}... [truncated, ${total} bytes]`;
}

/** Makes payloads and answers fit to be logged. */
export type ShowForLog = (text: string) => unknown;

/**
 * Makes a function that takes secrets out of a payload or answer and shortens what is long (PA-135 to PA-137). What is
 * no JSON object is shown as shortened text. The state is never shown, for it may hold the whole request.
 */
export function createShowForLog(settings: SidebandSettings): ShowForLog {
  const hidden = new Set([...settings.redact_headers, settings.secret_header_name].map((name) => name.toLowerCase()));
  const most = settings.debug_body_max_bytes;

  function showEntry(name: string, value: unknown): unknown {
    if (name === "headers" && Array.isArray(value)) return value.map((entry) => hideHeaders(entry, hidden));
    if (name === "extracted_headers") return hideHeaders(value, hidden);
    if (name === "body" && typeof value === "string") return truncateText(value, most);
    if (name === "state") return `[opaque, ${Buffer.byteLength(JSON.stringify(value))} bytes]`;
    if (name === "mcp_tool_arguments") return shortenValue(value, most);
    const isNested = name === "request" || name === "response" || name === "mcp";
    return isNested && isJsonRecord(value) ? showObject(value) : value;
  }

  function showObject(value: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, showEntry(name, inner)]));
  }

  return (text) => {
    const value = parseJson(text);
    return isJsonRecord(value) ? showObject(value) : truncateText(text, most);
  };
}

function hideHeaders(headers: unknown, hidden: ReadonlySet<string>): unknown {
  if (!isJsonRecord(headers)) return headers;
  return Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name, hidden.has(name.toLowerCase()) ? redacted : value]),
  );
}

/** The value itself if its text is short enough, else its text cut off (PA-191). */
function shortenValue(value: unknown, most: number): unknown {
  const text = JSON.stringify(value);
  const shown = truncateText(text, most);
  return shown === text ? value : shown;
}
