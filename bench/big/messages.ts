import { callBytes } from "../load/calls.ts";

const line = 'Berth 12 is taken until noon; the "Alma" waits outside.\n';

/** How much the tool `events-N` streams in all. */
export const streamBytes = 16 << 20;

/** A text as tools return it: lines, with characters that JSON escapes. */
export function textOf(bytes: number): string {
  return line.repeat(Math.ceil(bytes / JSON.stringify(line).length)).slice(0, bytes);
}

/** One kind of big exchange, and what goes over the wire for it in the direction that counts. */
export interface BigShape {
  readonly name: string;
  readonly body: string;
  /** Whether its bytes are those of the request; else those of the answer. */
  readonly isRequest: boolean;
}

/** The exchanges that the bench makes. */
export const bigShapes = {
  arguments1: { name: "1 MB arguments", body: callOf("echo", 1 << 20), isRequest: true },
  arguments16: { name: "16 MB arguments", body: callOf("echo", 16 << 20), isRequest: true },
  result1: { name: "1 MB results", body: callOf(`result-${1 << 20}`), isRequest: false },
  result16: { name: "16 MB results", body: callOf(`result-${16 << 20}`), isRequest: false },
  events: { name: "64 KB events", body: callOf(`events-${64 << 10}`), isRequest: false },
  list: {
    name: "a list of 10,000 tools",
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/list", params: {} }),
    isRequest: false,
  },
} as const satisfies Record<string, BigShape>;

function callOf(tool: string, bytes: number = callBytes): string {
  const params = { name: tool, arguments: { text: textOf(bytes) } };
  return JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
}
