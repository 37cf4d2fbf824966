import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { messageFrom } from "../../../test/support/exchange.ts";
import { spanOf } from "../../protocol/json/outline.ts";
import { memberSource } from "../../protocol/json/read.ts";
import { parse } from "../../protocol/parse.ts";
import { replaceMember } from "./message-edit.ts";

describe("withMember", () => {
  it("knows of the new text what the scanner would find in it", () => {
    const space = fc.constantFrom("", " ", "\n  ");
    const tools = fc.array(fc.jsonValue().map((value) => JSON.stringify(value)));
    fc.assert(
      fc.property(tools, tools, space, fc.boolean(), (before, after, blank, isLast) => {
        const list = `"tools":${blank}[${before.join(`,${blank}`)}]${blank}`;
        const rest = `"_meta":{"a":1},"nextCursor":"x"`;
        const inside = isLast ? `${rest},${list}` : `${list},${rest}`;
        const message = messageFrom(`${blank}{"jsonrpc":"2.0","result":{${inside}},"id":7}${blank}`);
        const span = spanOf(message.outline, "result.tools");
        if (span === undefined) throw new Error("there is no list");
        const made = replaceMember(message, span, Buffer.from(`[${after.join(",")}]`));
        const again = parse(made.bytes, { revision: "unknown", mode: "observe" });
        if (!again.ok || again.form !== "single") throw new Error("it is no message any more");
        expect(made.outline.spans).toEqual(again.message.outline.spans);
        expect(made.outline.end).toBe(again.message.outline.end);
      }),
    );
  });

  it("takes a member of a batch out of it", () => {
    const text =
      '[{"jsonrpc":"2.0","id":1,"result":{"tools":[1,2]}},{"jsonrpc":"2.0","id":2,"result":{"tools":[3,4]}}]';
    const outcome = parse(Buffer.from(text), { revision: "2025-03-26", mode: "enforce" });
    const second = outcome.ok && outcome.form === "batch" ? outcome.members[1] : undefined;
    if (second?.ok !== true) throw new Error("there is no second member");
    const span = spanOf(second.message.outline, "result.tools") ?? { start: 0, end: 0 };
    const made = replaceMember(second.message, span, Buffer.from("[4]"));
    expect(made.bytes.toString()).toBe('{"jsonrpc":"2.0","id":2,"result":{"tools":[4]}}');
    expect(memberSource(made, "id")).toBe("2");
    expect(memberSource(made, "result.tools")).toBe("[4]");
  });
});
