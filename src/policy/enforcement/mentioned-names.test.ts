import { describe, expect, it } from "vitest";

import { messageFrom } from "../../../test/support/exchange.ts";
import { resultOf } from "../../../test/support/messages.ts";
import { mayMentionResource, resourceMentions } from "./mentioned-names.ts";

const link = { type: "resource_link", uri: "file:///a", name: "a" };
/** Short answers are searched byte by byte, long ones natively. */
const texts = [
  ["short", ""],
  ["long", "x".repeat(2000)],
] as const;

describe.each(texts)("a %s answer", (_, text) => {
  const block = { type: "text", text };

  it("mentions a linked resource", () => {
    const message = resultOf({ content: [block, link] });
    expect(mayMentionResource(message)).toBe(true);
    expect(resourceMentions(message)).toEqual([{ uri: "file:///a", path: ["result", "content", 1] }]);
  });

  it("mentions a linked resource in escaped JSON", () => {
    const escaped = String.raw`{"type":"\u0072esource_link","uri":"file:///a","name":"a"}`;
    const message = messageFrom(`{"jsonrpc":"2.0","id":1,"result":{"content":[${JSON.stringify(block)},${escaped}]}}`);
    expect(mayMentionResource(message)).toBe(true);
    expect(resourceMentions(message).map(({ uri }) => uri)).toEqual(["file:///a"]);
  });

  it("mentions the resource of its contents", () => {
    expect(mayMentionResource(resultOf({ contents: [{ uri: "file:///a", text }] }))).toBe(true);
  });

  it.each<[string, unknown]>([
    ["nothing of the kind", { content: [block] }],
    ["the word in a text", { content: [block, { type: "text", text: "a resource" }] }],
    ["a name that begins alike", { content: [block], results: "res" }],
    ["a line feed", { content: [block, { type: "text", text: "one\ntwo" }] }],
  ])("with %s mentions none", (__, result) => {
    const message = resultOf(result);
    expect(mayMentionResource(message)).toBe(false);
    expect(resourceMentions(message)).toEqual([]);
  });

  it("is not searched beyond its own bytes", () => {
    const [first, second] = [resultOf({ content: [block] }), resultOf({ content: [link] })];
    const bytes = Buffer.concat([first.bytes, second.bytes]);
    expect(mayMentionResource({ ...first, bytes })).toBe(false);
  });
});
