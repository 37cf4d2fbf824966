import { expect, it } from "vitest";

import { resultOf } from "../../../test/support/messages.ts";
import { mentionedUris } from "./mentioned-uris.ts";

const link = { type: "resource_link", uri: "x://1", name: "one" };
const embedded = { type: "resource", resource: { uri: "x://2", text: "two" } };

it.each<[string, object, readonly string[]]>([
  ["a result", { content: [link, { type: "text", text: "x://3" }, embedded] }, ["x://1", "x://2"]],
  ["a prompt", { messages: [{ role: "user", content: embedded }] }, ["x://2"]],
  ["the result of a task", { taskId: "1", status: "completed", result: { content: [link] } }, ["x://1"]],
  ["structured content", { content: [], structuredContent: link }, []],
])("the URIs that a client may read are found in %s", (_where, result, uris) => {
  expect(mentionedUris(resultOf(result))).toEqual(uris);
});
