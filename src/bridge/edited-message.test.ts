import { describe, expect, it } from "vitest";
import { messageFrom } from "../../test/support/exchange.ts";
import { spanOf } from "../protocol/json/outline.ts";
import { idFrom, type Message } from "../protocol/message.ts";
import { editBytes, editMessage, membersBrought, MessageEdit } from "./edited-message.ts";
import { synthesizeMessage } from "./synthesize.ts";

const request = (text: string): Message => messageFrom(text);

function at(message: Message, member: Parameters<typeof spanOf>[1]) {
  const span = spanOf(message.outline, member);
  if (span === undefined) throw new Error(`there is no ${member}`);
  return span;
}

describe("an edited message", () => {
  it("is the same as one that was read anew", () => {
    const front = '"_meta":{"progressToken":"é","io.modelcontextprotocol/protocolVersion":"2026-07-28"},';
    const texts = [
      '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"a":"ü"}}}',
      '{"id":"long id é","jsonrpc":"2.0","method":"tools/call","params":{"arguments":{},"name":"x","cursor":""} }',
      ' {"jsonrpc" : "2.0", "id" : 7, "method":"prompts/get", "params":{"name":"echo"}, "more":[1]}\n',
    ];
    for (const text of texts) {
      const message = request(text);
      const [id, params] = [at(message, "id"), at(message, "params")];
      const edits = [
        new MessageEdit(id.start, id.end, '"né"'),
        new MessageEdit(params.start + 1, params.start + 1, front, membersBrought(front, "params")),
      ];
      const edited = editMessage(message, idFrom("né"), edits);
      const read = synthesizeMessage(edited.bytes);
      expect(edited).toEqual(read);
      expect(editBytes(message, edits)).toEqual(read.bytes);
      expect(JSON.parse(edited.bytes.toString())).toMatchObject({
        id: "né",
        params: { _meta: { progressToken: "é" } },
      });
    }
  });

  it("loses the member that is taken out", () => {
    const message = request('{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[]}}');
    const [id, type] = [at(message, "id"), at(message, "result.resultType")];
    const edits = [
      new MessageEdit(id.start, id.end, "1000"),
      new MessageEdit(type.start - '"resultType":'.length, type.end + 1, ""),
    ];
    const edited = editMessage(message, idFrom(1000), edits, "result.resultType");
    expect(edited).toEqual(synthesizeMessage('{"jsonrpc":"2.0","id":1000,"result":{"content":[]}}'));
  });
});
