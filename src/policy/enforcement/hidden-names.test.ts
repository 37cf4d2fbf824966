import { describe, expect, it } from "vitest";

import { exchangeWith, messageFrom, valueOf } from "../../../test/support/exchange.ts";
import { notificationOf, requestOf } from "../../../test/support/messages.ts";
import { allow, answering, createPolicyBench, deny } from "../../../test/support/policy.ts";

const sees = (name: string): boolean => !name.includes("secret");
const link = (uri: string) => ({ type: "resource_link", uri, name: uri });
const embedded = (uri: string) => ({ type: "resource", resource: { uri, text: "x" } });
const text = { type: "text", text: "hi" };
const modern = { revision: "2026-07-28", era: "modern" } as const;

async function resultOf(method: string, params: unknown, result: unknown): Promise<unknown> {
  const bench = createPolicyBench({ sees }, answering(result));
  const { message } = await bench.handle(exchangeWith(requestOf(method, params)));
  return Reflect.get(Object(valueOf(message)), "result");
}

describe("hidden names", () => {
  it("are removed from links and embedded resources of tool results", async () => {
    const content = [link("a:secret"), text, embedded("b:secret"), link("c:open"), embedded("d:open")];
    const expected = { content: [text, link("c:open"), embedded("d:open")] };
    expect(await resultOf("tools/call", { name: "t" }, { content })).toEqual(expected);
  });

  it("are removed from a message full of them, in a time that grows with its length", async () => {
    const content = Array.from({ length: 30_000 }, (_, at) => link(at % 2 === 0 ? `a:secret${at}` : `a:${at}`));
    const shown = await resultOf("tools/call", { name: "t" }, { content });
    expect(Reflect.get(Object(shown), "content")).toEqual(content.filter((_, at) => at % 2 === 1));
  });

  it("are removed where members have odd names", async () => {
    const odd = (uri: string) => ({ "*": [link(uri), text], "~": { "a/b": [link(uri)] }, "0": [link("c:open")] });
    expect(await resultOf("tools/call", { name: "t" }, odd("a:secret"))).toEqual({
      "*": [text],
      "~": { "a/b": [] },
      "0": [link("c:open")],
    });
  });

  it.each([
    ["tasks/result", (result: unknown) => result],
    ["tasks/get", (result: unknown) => ({ taskId: "t", result })],
  ])("are removed from task results: %s", async (method, wrap) => {
    const shown = [text, link("c:open")];
    const bench = createPolicyBench({ sees }, async (exchange) => {
      const isCall = exchange.message.method === "tools/call";
      const content = [link("a:secret"), ...shown, embedded("b:secret")];
      return answering(isCall ? { task: { taskId: "t" } } : wrap({ content }))(exchange);
    });
    await bench.handle(exchangeWith(requestOf("tools/call", { name: "t", task: {} })));
    const { message } = await bench.handle(exchangeWith(requestOf(method, { taskId: "t" })));
    expect(valueOf(message)).toMatchObject({ result: wrap({ content: shown }) });
  });

  it("are removed from escaped content blocks", async () => {
    const bench = createPolicyBench({ sees }, async ({ message }) => ({
      message: messageFrom(
        `{"jsonrpc":"2.0","id":${message.id?.json},"result":{"content":[{"type":"\\u0072esource_link","uri":"a:secret"}]}}`,
      ),
    }));
    const { message } = await bench.handle(exchangeWith(requestOf("tools/call", { name: "t" })));
    expect(valueOf(message)).toMatchObject({ result: { content: [] } });
  });

  it("are removed from prompt messages", async () => {
    const say = (content: unknown) => ({ role: "user", content });
    const messages = [say(text), say(embedded("a:secret")), say(embedded("b:open"))];
    expect(await resultOf("prompts/get", { name: "p" }, { messages })).toEqual({
      messages: [messages[0], messages[2]],
    });
  });

  it("are removed from the contents of another resource", async () => {
    const contents = [
      { uri: "dir:secret", text: "1" },
      { uri: "sub:secret", text: "2" },
      { uri: "x:open", text: "3" },
    ];
    expect(await resultOf("resources/read", { uri: "dir:secret" }, { contents })).toEqual({
      contents: [contents[0], contents[2]],
    });
  });

  it("do not change structured content", async () => {
    const result = { content: [text], structuredContent: { items: [link("a:secret")] } };
    expect(await resultOf("tools/call", { name: "t" }, result)).toEqual(result);
  });

  it.each([
    ["prompt", { type: "ref/prompt", name: "secret" }],
    ["resource", { type: "ref/resource", uri: "a:secret" }],
    ["template", { type: "ref/resource", uri: "a:secret/{x}" }],
  ])("cannot be completed: a %s is answered as not found", async (_, ref) => {
    const bench = createPolicyBench({ sees });
    const params = { ref, argument: { name: "x", value: "" } };
    const { message } = await bench.handle(exchangeWith(requestOf("completion/complete", params)));
    expect(bench.sent).toHaveLength(0);
    expect(valueOf(message)).toMatchObject({ error: { code: -32602 } });
    expect(valueOf(message)).not.toHaveProperty("error.data");
  });

  it.each([
    "file:///d/{path}{?x}",
    "file:///d/{path}{?x,y}{#part}",
    "file:///d/{path}{.ext}",
    "file:///d{/path}",
    "file:///{dir,path}",
    "file:///{+dir,path}",
    "file:///{dir:1}/{path*}",
    "file:///d/{path:20}",
    "file:///d{;path}",
    "x://y{?dir,path,z}",
    "x://y?a=1{&path}",
  ])("are removed from the values that complete %s", async (uri) => {
    const completion = { values: ["secret", "open"], total: 2 };
    const params = {
      ref: { type: "ref/resource", uri },
      argument: { name: "path", value: "" },
      context: { arguments: { dir: "d" } },
    };
    const shown = await resultOf("completion/complete", params, { completion });
    expect(shown).toEqual({ completion: { values: ["open"], total: 2 } });
  });

  it("are removed from completed values", async () => {
    const completion = { values: ["secret", "open"], total: 2 };
    const argument = { name: "path", value: "" };
    expect(
      await resultOf(
        "completion/complete",
        {
          ref: { type: "ref/resource", uri: "file:///{dir}/{+path}" },
          argument,
          context: { arguments: { dir: "d" } },
        },
        { completion },
      ),
    ).toEqual({ completion: { values: ["open"], total: 2 } });
    expect(
      await resultOf(
        "completion/complete",
        { ref: { type: "ref/resource", uri: "file:///{dir}/{path}" }, argument },
        { completion },
      ),
    ).toEqual({ completion });
  });

  it("are dropped from resource updates", async () => {
    const bench = createPolicyBench({ sees });
    for (const uri of ["a:secret", "b:open"]) {
      const message = notificationOf("notifications/resources/updated", { uri });
      await bench.handle(exchangeWith(message, { direction: "server-to-client" }));
    }
    expect(bench.sent.map(({ message }) => valueOf(message))).toMatchObject([{ params: { uri: "b:open" } }]);
  });

  it("are removed from listen requests, like refused subscriptions", async () => {
    const asked: unknown[] = [];
    const bench = createPolicyBench({
      sees,
      request: ({ method, message }) => {
        asked.push(method);
        return method === "resources/subscribe" && JSON.stringify(valueOf(message)).includes("closed")
          ? deny()
          : allow();
      },
    });
    const notifications = {
      toolsListChanged: true,
      resourceSubscriptions: ["a:secret", "b:closed", "c:open", "d:closed", "e:open"],
    };
    await bench.handle(exchangeWith(requestOf("subscriptions/listen", { notifications }), modern));
    expect(valueOf(bench.sent[0]?.message)).toMatchObject({
      params: { notifications: { toolsListChanged: true, resourceSubscriptions: ["c:open", "e:open"] } },
    });
    expect(asked.filter((method) => method === "resources/subscribe")).toHaveLength(5);
  });

  it.each([
    { resourceSubscriptions: "a:secret" },
    { resourceSubscriptions: { 0: "a:secret" } },
    { resourceSubscriptions: [["a:secret"]] },
    { resourceSubscriptions: ["c:open", { uri: "a:secret" }] },
    [{ resourceSubscriptions: ["a:secret"] }],
  ])("make a listen request unclear that has no list of them: %j", async (notifications) => {
    const bench = createPolicyBench({ sees });
    await bench.handle(exchangeWith(requestOf("subscriptions/listen", { notifications }), modern)).catch(() => {});
    expect(bench.sent).toEqual([]);
  });
});
