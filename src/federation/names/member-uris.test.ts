import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { messageFrom } from "../../../test/support/exchange.ts";
import type { MemberOptions } from "./member-options.ts";
import { advertisedUri, ownUri, withAdvertisedUris, withOwnUris } from "./member-uris.ts";

const keeping: MemberOptions = {
  name: "gh",
  prefix: "gh",
  title: "gh",
  allowedTools: undefined,
  uris: "keep",
  required: false,
};
const member: MemberOptions = { ...keeping, uris: "prefix" };
const link = { type: "resource_link", uri: "x://1", name: "one" };
const embedded = { type: "resource", resource: { uri: "x://1", text: "x://1" } };

/** A URI in every place where messages have one. */
const places: readonly [string, object][] = [
  ["a list of resources", { result: { resources: [{ uri: "x://1", name: "x://1" }] } }],
  ["a list of templates", { result: { resourceTemplates: [{ uriTemplate: "x://{n}", name: "n" }] } }],
  ["the page of a tool", { result: { tools: [{ name: "t", _meta: { ui: { resourceUri: "ui://x" } } }] } }],
  [
    "the page of a tool, as once written",
    { result: { tools: [{ name: "t", _meta: { "ui/resourceUri": "ui://x" } }] } },
  ],
  ["the page of a result", { result: { content: [], _meta: { ui: { resourceUri: "ui://x" } } } }],
  ["contents", { result: { contents: [{ uri: "x://1", text: "x://1" }] } }],
  ["a link in a result", { result: { content: [{ type: "text", text: "x://1" }, link] } }],
  ["a resource in a result", { result: { content: [embedded] } }],
  ["a link in a prompt", { result: { messages: [{ role: "user", content: link }] } }],
  ["a resource in a prompt", { result: { messages: [{ role: "user", content: embedded }] } }],
  ["the result of a task", { result: { taskId: "1", status: "completed", result: { content: [link, embedded] } } }],
  [
    "the result in a notice of a task",
    { method: "notifications/tasks", params: { taskId: "1", status: "completed", result: { content: [link] } } },
  ],
  ["an error", { error: { code: -32002, message: "not found", data: { uri: "x://1" } } }],
  ["an update", { method: "notifications/resources/updated", params: { uri: "x://1" } }],
  ["a question", { method: "sampling/createMessage", params: { messages: [{ role: "user", content: [embedded] }] } }],
  [
    "a question in a result",
    {
      result: {
        resultType: "input_required",
        inputRequests: { q: { method: "sampling/createMessage", params: { messages: [{ content: link }] } } },
      },
    },
  ],
  ["an answer", { method: "tools/call", params: { name: "t", inputResponses: { q: { content: [link] } } } }],
  ["a request to read", { method: "resources/read", params: { uri: "x://1" } }],
  ["a completion", { method: "completion/complete", params: { ref: { type: "ref/resource", uri: "x://{n}" } } }],
  [
    "a subscription",
    { method: "subscriptions/listen", params: { notifications: { resourceSubscriptions: ["x://1"] } } },
  ],
];

/** What is not the URI of a resource, or not this gateway's business. */
const others: readonly [string, object][] = [
  [
    "arguments",
    { method: "tools/call", params: { name: "t", arguments: { uri: "x://1", resource: { uri: "x://1" } } } },
  ],
  [
    "structured content",
    { result: { content: [], structuredContent: { uri: "x://1", contents: [{ uri: "x://1" }] } } },
  ],
  ["roots of the client", { result: { roots: [{ uri: "file:///home" }] } }],
  ["a log message", { method: "notifications/message", params: { level: "info", data: { uri: "x://1" } } }],
];

function formOf(body: object): object {
  const isNotification = "method" in body && String(body.method).startsWith("notifications/");
  return { jsonrpc: "2.0", ...(isNotification ? {} : { id: 1 }), ...body };
}

const jsonOf = ({ bytes }: { readonly bytes: Buffer }): unknown => JSON.parse(bytes.toString());

describe("URIs with the prefix of their server", () => {
  it.each(places)("are those in %s, and come back as they were", (_where, body) => {
    const message = messageFrom(JSON.stringify(formOf(body)));
    const shown = withAdvertisedUris(message, member);
    const text = shown.bytes.toString();
    expect(text).toMatch(/"gh\+x:\/\/|"ui:\/\/gh\+x"/u);
    // Only URIs: what people read stays.
    expect(text).not.toMatch(/"(?:text|name)":"gh\+/u);
    expect(jsonOf(withOwnUris(shown, member))).toEqual(formOf(body));
    expect(withAdvertisedUris(message, keeping)).toBe(message);
    expect(withOwnUris(message, keeping)).toBe(message);
  });

  it.each(others)("are not those in %s", (_where, body) => {
    const message = messageFrom(JSON.stringify(formOf(body)));
    expect(withAdvertisedUris(message, member)).toBe(message);
  });

  it("lead back to the URI of the server, whatever it is", () => {
    const pages = fc.string().map((rest) => `ui://${rest}`);
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.webUrl(), pages), (uri) => {
        expect(ownUri(member, advertisedUri(member, uri))).toBe(uri);
      }),
    );
    expect(ownUri(member, "x://1")).toBeUndefined();
    expect(ownUri({ ...member, prefix: "other" }, "gh+x://1")).toBeUndefined();
  });
});
