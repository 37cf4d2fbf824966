import { describe, expect, it } from "vitest";

import { messageFrom, textOf } from "../../../test/support/exchange.ts";
import { createProcessSeals } from "../../lib/keys/sealing.ts";
import type { Message } from "../../protocol/message.ts";
import { anonymous } from "../../core/exchange.ts";
import { createRequestStates, withAdvertisedTasks, withAsker, withLogger, withReference } from "./member-messages.ts";
import type { MemberOptions } from "./member-options.ts";
import { withAdvertisedUris } from "./member-uris.ts";

const member: MemberOptions = {
  name: "gh",
  prefix: "gh",
  title: "GitHub",
  allowedTools: undefined,
  uris: "prefix",
  required: false,
};
/** JSON that another writer would write otherwise, or that JavaScript cannot hold. */
const odd = String.raw`{"big": 12345678901234567890,"long":0.10000000000000000001,"inf":1e400,"e":"\u0041\/","neg":-0}`;
const states = createRequestStates(createProcessSeals().requestState);
const caller = { route: "r", principal: anonymous } as never;

const changes: readonly [string, string, (message: Message) => Message, string][] = [
  [
    "a log message",
    `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":${odd}}}`,
    (message) => withLogger(message, member),
    '"logger":"gh"',
  ],
  [
    "a question",
    `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"Sure?","requestedSchema":${odd}}}`,
    (message) => withAsker(message, "elicitation/create", member),
    '"message":"GitHub: Sure?"',
  ],
  [
    "a question in a result",
    `{"jsonrpc":"2.0","id":1,"result":{"inputRequests":{"a/b":{"method":"elicitation/create","params":{"message":"Sure?","requestedSchema":${odd}}}}}}`,
    (message) => states.seal(caller, member, message, false),
    '"message":"GitHub: Sure?"',
  ],
  [
    "a task",
    `{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"7","more":${odd}}}}`,
    (message) => withAdvertisedTasks(message, "gh"),
    '"taskId":"gh:7"',
  ],
  [
    "a completion",
    `{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"gh__p","more":${odd}}}}`,
    (message) => withReference(message as never, "p"),
    '"name":"p"',
  ],
  [
    "a link beside structured content",
    `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"resource_link","uri":"x:\\/\\/1"}],"structuredContent":${odd}}}`,
    (message) => withAdvertisedUris(message, member),
    '"uri":"gh+x://1"',
  ],
  [
    "a link in the answer to a question",
    `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":${odd},"inputResponses":{"q":{"content":[{"uri":"x://1"}]}}}}`,
    (message) => withAdvertisedUris(message, member),
    '"uri":"gh+x://1"',
  ],
];

describe("messages in a federation's words", () => {
  it.each(changes)("keep every other byte of %s", (_what, text, change, written) => {
    const changed = textOf(change(messageFrom(text)));
    expect(changed).toContain(written);
    expect(changed).toContain(odd);
  });
});
