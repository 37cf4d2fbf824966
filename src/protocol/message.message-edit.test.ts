import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { idFrom, type Message, replaceIds } from "./message.ts";
import type { MemberName } from "./json/outline.ts";
import { memberSource } from "./json/read.ts";
import { parseText } from "./parse.ts";

function parsed(text: string): Message {
  const outcome = parseText(text, { revision: "2025-03-26", mode: "observe" });
  if (!outcome.ok) throw new Error(outcome.failure.message);
  const member = outcome.form === "single" ? outcome : outcome.members[0];
  if (member?.ok !== true) throw new Error("the first member is no message");
  return member.message;
}

const space = fc.constantFrom("", " ", "\n", "\t  ");
const id = fc.oneof(fc.string(), fc.integer()).map((value) => idFrom(value));
/** A request with blanks anywhere, members in any order, and ids and tokens of any kind. */
const requestText = fc
  .record({
    spaces: fc.infiniteStream(space),
    id,
    token: fc.option(id),
    order: fc.boolean(),
    extra: fc.jsonValue(),
  })
  .map(({ spaces, id: own, token, order, extra }) => {
    const blank = (): string => spaces.next().value ?? "";
    const object = (...members: readonly string[]): string =>
      `{${blank()}${(order ? members : members.toReversed()).join(`${blank()},${blank()}`)}${blank()}}`;
    const member = (name: string, json: string): string => `"${name}"${blank()}:${blank()}${json}`;
    const meta = object(
      member("other", JSON.stringify(extra)),
      ...(token === null ? [] : [member("progressToken", token.json)]),
    );
    const params = object(member("_meta", meta), member("name", '"weigh"'), member("arguments", '{"id":1}'));
    return `${blank()}${object(
      member("jsonrpc", '"2.0"'),
      member("id", own.json),
      member("method", '"tools/call"'),
      member("params", params),
    )}${blank()}`;
  });

describe("splicing ids", () => {
  const members: readonly MemberName[] = ["id", "params._meta.progressToken", "params.requestId"];

  it("[SC-012, SC-059] gives what parsing the new bytes would give, and changes nothing else", () => {
    fc.assert(
      fc.property(requestText, id, id, (text, first, second) => {
        const before = parsed(text);
        const edits = [
          { name: "id", id: first },
          { name: "params._meta.progressToken", id: second },
          { name: "params.requestId", id: second },
        ] as const;
        const after = replaceIds(before, edits);
        expect(after).toEqual(parsed(after.bytes.toString()));
        const back = members.flatMap((name) => {
          const json = memberSource(before, name);
          return json === undefined ? [] : [{ name, id: { key: "", json } }];
        });
        const { outline } = before;
        expect(replaceIds(after, back).bytes).toEqual(before.bytes.subarray(outline.start, outline.end));
      }),
    );
  });

  it("takes a member of a batch out of it", () => {
    const member = parsed(' [ {"jsonrpc":"2.0","id":"a","method":"ping"} , {"jsonrpc":"2.0","method":"x"}]');
    const alone = replaceIds(member, [{ name: "id", id: idFrom(12) }]);
    expect(alone.bytes.toString()).toBe('{"jsonrpc":"2.0","id":12,"method":"ping"}');
    expect(alone).toEqual(parsed(alone.bytes.toString()));
  });

  it("keeps findings at their places", () => {
    const odd = parsed('{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"\\ud800","b":1,"b":2}}');
    const spliced = replaceIds(odd, [{ name: "id", id: idFrom(12_345) }]);
    expect(spliced.outline).toEqual(parsed(spliced.bytes.toString()).outline);
    expect(spliced.diagnostics).toBe(odd.diagnostics);
  });

  it("returns the message itself when it has none of the members", () => {
    const message = parsed('{"jsonrpc":"2.0","method":"notifications/initialized"}');
    expect(replaceIds(message, [{ name: "id", id: idFrom(1) }])).toBe(message);
  });
});
