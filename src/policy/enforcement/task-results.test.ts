import { describe, expect, it } from "vitest";

import { exchangeWith, valueOf } from "../../../test/support/exchange.ts";
import { notificationOf, requestOf } from "../../../test/support/messages.ts";
import { allow, createPolicyBench, deny, fakeProvider, type FakeRules } from "../../../test/support/policy.ts";
import { principalNamed } from "../../../test/support/principals.ts";
import type { Handler } from "../../core/pipeline.ts";
import { resultMessage } from "../../core/reply.ts";

const content = [{ type: "text", text: "4111 1111 1111 1111" }];

/** A server whose tool is a task, in the form of both revisions that have them. */
const server: Handler = async ({ message, era }) => {
  if (message.kind !== "request") return { message: undefined };
  const inlined = { resultType: "complete", taskId: "t-1", status: "completed", result: { content } };
  const results: Readonly<Record<string, unknown>> = {
    "tools/call":
      era === "modern" ? { resultType: "task", taskId: "t-1" } : { task: { taskId: "t-1", status: "working" } },
    "tasks/result": { content },
    "tasks/get": inlined,
  };
  return { message: resultMessage(message.id, JSON.stringify(results[message.method])) };
};

const begin = requestOf("tools/call", { name: "cards", arguments: {}, task: {} });
const eras = [
  { revision: "2025-11-25", era: "legacy", fetch: "tasks/result" },
  { revision: "2026-07-28", era: "modern", fetch: "tasks/get" },
] as const;
const rules = (decision: ReturnType<typeof deny>): FakeRules => ({
  request: () => allow({ memory: "of the call" }),
  response: ({ request, message }, { memory }) =>
    request?.method === "tools/call" && memory === "of the call" && "text" in Object(contentOf(valueOf(message)))
      ? decision
      : allow(),
});

function contentOf(value: unknown): unknown {
  const { result } = Object(value) as { readonly result?: { readonly content?: readonly unknown[] } };
  return result?.content?.[0];
}

describe("the result of a task", () => {
  it.each(eras)("is evaluated as the response to the call that started the task ($revision)", async (facts) => {
    const { fetch, ...era } = facts;
    const bench = createPolicyBench(rules(deny()), server);
    await bench.handle(exchangeWith(begin, era));
    const reply = await bench.handle(exchangeWith(requestOf(fetch, { taskId: "t-1" }, "fetch"), era));
    expect(valueOf(reply.message)).toMatchObject({
      id: "fetch",
      error: { code: 4030, data: { executed: true } },
    });
  });

  it.each(eras)("passes in the form that the decision gave it ($revision)", async (facts) => {
    const { fetch, ...era } = facts;
    const bench = createPolicyBench(rules(allow({ change: { set: { "/result/content/0/text": "****" } } })), server);
    await bench.handle(exchangeWith(begin, era));
    const reply = await bench.handle(exchangeWith(requestOf(fetch, { taskId: "t-1" }, "fetch"), era));
    expect(JSON.stringify(valueOf(reply.message))).toContain("****");
    expect(JSON.stringify(valueOf(reply.message))).not.toContain("4111");
    expect(valueOf(reply.message)).toMatchObject({ id: "fetch" });
  });

  it("is evaluated in a notification too", async () => {
    const bench = createPolicyBench(rules(deny()), server);
    const modern = { revision: "2026-07-28", era: "modern" } as const;
    await bench.handle(exchangeWith(begin, modern));
    const told = notificationOf("notifications/tasks", { taskId: "t-1", result: { content } });
    await bench.handle(exchangeWith(told, { ...modern, direction: "server-to-client" }));
    expect(bench.sent).toHaveLength(1);
  });

  it("is refused if the call is unknown, or belongs to another principal", async () => {
    const bench = createPolicyBench(rules(deny()), server);
    await bench.handle(exchangeWith(begin, { principal: principalNamed("a") }));
    const fetch = requestOf("tasks/result", { taskId: "t-1" });
    const reply = await bench.handle(exchangeWith(fetch, { principal: principalNamed("b") }));
    expect(valueOf(reply.message)).toMatchObject({ error: { data: { reason: "task_forgotten" } } });
  });

  const long = requestOf("tools/call", { name: "cards", arguments: { text: "x".repeat(20_000), all: true } });
  const fetched = requestOf("tasks/result", { taskId: "t-1" }, "fetch");
  const knowing = (argumentsForResponses: readonly string[] | undefined, verdict = deny()) => ({
    ...fakeProvider(rules(verdict)),
    ...(argumentsForResponses && { argumentsForResponses }),
  });

  // A provider that does not say what it reads may read what was not kept.
  it.each([undefined, ["text"], ["all", "text"]])(
    "is refused where arguments that it depends on were too long to be kept (%j)",
    async (needed) => {
      const bench = createPolicyBench(knowing(needed, allow()), server);
      await bench.handle(exchangeWith(long));
      const reply = await bench.handle(exchangeWith(fetched));
      expect(valueOf(reply.message)).toMatchObject({ error: { data: { reason: "task_arguments_too_long" } } });
    },
  );

  it("is decided about with the arguments that it depends on, however long the others are", async () => {
    const seen: unknown[] = [];
    const provider = fakeProvider({
      response: ({ request }) => {
        seen.push(Object(Object(valueOf(request)).params).arguments);
        return allow();
      },
    });
    const bench = createPolicyBench({ ...provider, argumentsForResponses: ["all"] }, server);
    await bench.handle(exchangeWith(long));
    const reply = await bench.handle(exchangeWith(fetched));
    expect(reply.message?.kind).toBe("result");
    expect(seen).toContainEqual({ all: true });
  });

  it("is decided about by its tool where it does not depend on arguments, however long they are", async () => {
    const bench = createPolicyBench(knowing([]), server);
    await bench.handle(exchangeWith(long));
    const reply = await bench.handle(exchangeWith(fetched));
    expect(valueOf(reply.message)).toMatchObject({ id: "fetch", error: { data: { reason: "not_yours" } } });
  });

  it("passes unchanged while there is none yet", async () => {
    const bench = createPolicyBench(rules(deny()), async ({ message }) => ({
      message:
        message.kind === "request" ? resultMessage(message.id, '{"taskId":"t-9","status":"working"}') : undefined,
    }));
    const reply = await bench.handle(exchangeWith(requestOf("tasks/get", { taskId: "t-9" })));
    expect(reply.message?.kind).toBe("result");
  });
});
