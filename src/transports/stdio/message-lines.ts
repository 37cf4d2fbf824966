import { createLineReader } from "../../protocol/line-framing.ts";
import type { ChannelEvents } from "../transport.ts";

/** Takes the bytes of a stream as they come. */
export interface MessageLines {
  push(chunk: Uint8Array): void;
  /** Ends the stream: a last line without its line end is rubbish, for nothing says that it is whole. */
  end(): void;
}

const nothing = Buffer.alloc(0);
const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const quote = 0x22;

/**
 * Reads one message a line (MCP 2025-11-25, stdio). What cannot be a message, such as stray log text, is reported as
 * rubbish and the stream goes on (SC-019); whether the rest is one is for the parser to say.
 */
export function createMessageLines(
  maxLineBytes: number,
  events: Pick<ChannelEvents, "message" | "malformed">,
): MessageLines {
  const reader = createLineReader({
    maxLineBytes,
    onLine(line) {
      if (looksLikeMessage(line)) events.message(line);
      else events.malformed(line, "the line is no JSON object or batch");
    },
    onOverflow({ limit }) {
      events.malformed(nothing, `a line of more than ${limit} bytes was left out`);
    },
  });
  return {
    push: (chunk) => reader.push(chunk),
    end() {
      const last = reader.end();
      if (!last.complete) events.malformed(last.rest ?? nothing, "the stream ended within a line");
    },
  };
}

/** Tells messages from chatter by the first two tokens: an object with a name or none, an array of objects or none. */
function looksLikeMessage(line: Buffer): boolean {
  const at = skipBlanks(line, 0);
  const next = line[skipBlanks(line, at + 1)];
  if (line[at] === openBrace) return next === quote || next === closeBrace;
  return line[at] === openBracket && (next === openBrace || next === closeBracket);
}

function skipBlanks(line: Buffer, from: number): number {
  let at = from;
  // A lone CR is blank to JSON too (RFC 8259 section 2).
  while (line[at] === 0x20 || line[at] === 0x09 || line[at] === 0x0d) at += 1;
  return at;
}
