import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { peekUnread } from "./unread-message.ts";

const peek = (text: string) => {
  const bytes = Buffer.from(text);
  const found = peekUnread(bytes.subarray(0, 1024), bytes.subarray(-1024));
  return found === undefined ? undefined : [found.kind, found.id.json];
};
const large = JSON.stringify({ text: '"id":7,"method":"x"'.repeat(200) });

describe("a message that cannot be read as a whole", () => {
  it.each([
    [`{"jsonrpc":"2.0","id":1,"result":${large}}`, ["response", "1"]],
    [`{"result":${large},"jsonrpc":"2.0","id":"a\\"b"}`, ["response", String.raw`"a\"b"`]],
    [` { "id" : -5 , "error" : ${large} , "jsonrpc" : "2.0" } `, ["response", "-5"]],
    [`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":${large}}`, ["request", "1"]],
    [`{"method":"tools/call","params":${large},"jsonrpc":"2.0","id":"x"}`, ["request", '"x"']],
    [`{"params":${large},"method":"tools/call","id":2}`, ["request", "2"]],
  ])("is told by its ends: %#", (text, expected) => {
    expect(peek(text)).toEqual(expected);
  });

  it.each([
    `{"jsonrpc":"2.0","method":"notifications/x","params":${large}}`,
    `{"jsonrpc":"2.0","id":null,"result":${large}}`,
    `{"jsonrpc":"2.0","id":1.5,"result":${large}}`,
    `{"extra":{},"id":1,"result":${large}}`,
    `[{"jsonrpc":"2.0","id":1,"result":${large}}]`,
    `{"result":${large},"jsonrpc":"2.0","id":1`,
    `{"result":{"id":1}}`,
    "text",
    "",
  ])("is left alone where they do not say it: %#", (text) => {
    expect(peek(text)).toBeUndefined();
  });

  it("has no other id than the parser of JSON finds, however it is written", () => {
    const id = fc.oneof(fc.string(), fc.maxSafeInteger());
    const order = fc.shuffledSubarray(["jsonrpc", "id", "result"], { minLength: 3 });
    fc.assert(
      fc.property(id, order, fc.jsonValue(), (value, names, result) => {
        const members: Record<string, unknown> = { jsonrpc: "2.0", id: value, result };
        const text = JSON.stringify(Object.fromEntries(names.map((name) => [name, members[name]])));
        const found = peek(text);
        // In the middle of a long message the id is not looked for.
        if (found === undefined) expect(text.length).toBeGreaterThan(1024);
        else expect([found[0], JSON.parse(found[1] ?? "")]).toEqual(["response", value]);
      }),
    );
  });
});
