import { describe, expect, it } from "vitest";

import { createMessageLines } from "./framing.ts";

function read(chunks: readonly (string | Buffer)[], maxLineBytes = 1000): { messages: string[]; rubbish: string[] } {
  const messages: string[] = [];
  const rubbish: string[] = [];
  const lines = createMessageLines(maxLineBytes, {
    message: (bytes) => messages.push(bytes.toString()),
    malformed: (bytes, reason) => rubbish.push(bytes.length === 0 ? reason : bytes.toString("latin1")),
  });
  for (const chunk of chunks) lines.push(Buffer.from(chunk));
  lines.end();
  return { messages, rubbish };
}

describe("lines of messages", () => {
  it.each([
    "{}",
    '{"jsonrpc":"2.0","id":1,"method":"ping"}',
    ' \t{ "jsonrpc": "2.0" }',
    "[]",
    '[{"jsonrpc":"2.0","method":"a"}]',
    '[ \t{"jsonrpc":"2.0"}]',
    // Whether what begins like a message is one is for the parser to say.
    '{"a":1} {"b":2}',
    '{"broken',
  ])("take %s for a message", (line) => {
    expect(read([`${line}\n`])).toEqual({ messages: [line], rubbish: [] });
  });

  it.each([
    "Listening on port 3000",
    "[INFO] ready",
    "[2026-01-01 12:00:00] ready",
    "{ready}",
    "null",
    "42",
    '"text"',
    "{",
    "[",
    "\r{",
  ])("take %s for rubbish", (line) => {
    expect(read([`${line}\n`])).toEqual({ messages: [], rubbish: [line] });
  });

  it("[SC-086] leave later messages unharmed by whatever comes between", () => {
    const multibyte = Buffer.from('{"text":"é"}\r\n');
    const { messages, rubbish } = read([
      Buffer.from([0xef, 0xbb, 0xbf]),
      '{"bom":1}\n{"a":1}\r\n\n  \r\n{"lone":\r2}\nDEBUG text\n',
      Buffer.from([0x7b, 0xff, 0x0a]),
      multibyte.subarray(0, 10),
      multibyte.subarray(10),
      '{"x":1}{"y":2}\n{"last":1}\n{"cut',
    ]);
    expect(messages).toEqual(['{"a":1}', '{"lone":\r2}', '{"text":"é"}', '{"x":1}{"y":2}', '{"last":1}']);
    expect(rubbish).toEqual(['ï»¿{"bom":1}', "DEBUG text", "{ÿ", '{"cut']);
  });

  it("[SC-019] leave out a line over the limit and go on", () => {
    const { messages, rubbish } = read([`{"a":"${"x".repeat(20)}"}\n{"b":1}\n`], 10);
    expect(messages).toEqual(['{"b":1}']);
    expect(rubbish).toEqual(["it has 28 bytes, and limits.stdioLineBytes is 10"]);
  });
});
