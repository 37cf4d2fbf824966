import { describe, expect, it } from "vitest";

import { exchangeWith, textOf, valueOf } from "../../../test/support/exchange.ts";
import { notificationOf, requestOf } from "../../../test/support/messages.ts";
import { allow, answering, createPolicyBench, deny, type FakeRules } from "../../../test/support/policy.ts";
import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";

const modern = { revision: "2026-07-28", era: "modern" } as const;
const inputRequests = {
  berth: { method: "elicitation/create", params: { message: "Which berth?" } },
  dirs: { method: "roots/list" },
};
const result = { resultType: "input_required", inputRequests, requestState: "state-1" };
const call = (extra: object = {}) => requestOf("tools/call", { name: "moor", arguments: {}, ...extra });
const seenAs = ({ phase, direction, method }: InspectedMessage): string => `${phase} ${direction} ${method}`;

describe("input requests and responses", () => {
  it("are evaluated as the requests and responses of other revisions", async () => {
    const seen: string[] = [];
    const rules: FakeRules = {
      request: (subject) => {
        seen.push(seenAs(subject));
        return allow({ memory: `of ${subject.method}` });
      },
      response: (subject, { memory }) => {
        seen.push(`${seenAs(subject)} ${String(memory)}`);
        return allow();
      },
    };
    const bench = createPolicyBench(rules, answering(result));
    const reply = await bench.handle(exchangeWith(call(), modern));
    expect(valueOf(reply.message)).toMatchObject({ result });
    expect(seen.splice(0)).toEqual([
      "request client-to-server tools/call",
      "request server-to-client elicitation/create",
      "request server-to-client roots/list",
      "response server-to-client tools/call of tools/call",
    ]);
    const inputResponses = { berth: { action: "accept", content: { n: 4 } }, dirs: { roots: [] } };
    await bench.handle(exchangeWith(call({ inputResponses, requestState: "state-1" }), modern));
    expect(seen.slice(0, 3)).toEqual([
      "request client-to-server tools/call",
      "response client-to-server elicitation/create of elicitation/create",
      "response client-to-server roots/list of roots/list",
    ]);
  });

  it("are so many at most that one request cannot keep a decision point busy", async () => {
    const answered = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`q-${at}`, { action: "accept" }]));
    const uris = (count: number) => Array.from({ length: count }, (_, at) => `a:${at}`);
    const requests = (count: number) => [
      call({ inputResponses: answered(count) }),
      requestOf("subscriptions/listen", { notifications: { resourceSubscriptions: uris(count) } }),
    ];
    for (const decide of [() => allow(), async () => allow()]) {
      const bench = createPolicyBench({ request: decide, response: decide }, answering({}));
      for (const request of requests(1000)) await bench.handle(exchangeWith(request, modern));
      expect(bench.sent).toHaveLength(2);
      const before = bench.decisions.length;
      for (const request of requests(1001)) {
        const { message } = await bench.handle(exchangeWith(request, modern));
        expect(valueOf(message)).toMatchObject({ error: { code: -32602, data: { reason: "too_many_parts" } } });
      }
      expect(bench.sent).toHaveLength(2);
      // The request as a whole, and the refusal.
      expect(bench.decisions.length - before).toBe(4);
    }
  });

  it("are evaluated in notifications about tasks", async () => {
    const seen: string[] = [];
    const bench = createPolicyBench({
      request: (subject) => {
        seen.push(seenAs(subject));
        const isRoots = subject.method === "roots/list";
        return isRoots ? deny() : allow({ memory: "asked", change: { set: { "/params/message": "Berth?" } } });
      },
      response: (subject, { memory }) => {
        seen.push(`${seenAs(subject)} ${String(memory)}`);
        return allow();
      },
    });
    const notice = (questions: object) =>
      exchangeWith(
        notificationOf("notifications/tasks", {
          taskId: "t-1",
          status: "input_required",
          inputRequests: questions,
        }),
        { ...modern, direction: "server-to-client" },
      );
    await bench.handle(notice({ berth: inputRequests.berth }));
    expect(seen.splice(0)).toEqual([
      "request server-to-client notifications/tasks",
      "request server-to-client elicitation/create",
    ]);
    expect(bench.sent.map((exchange) => textOf(exchange.message))).toEqual([
      expect.stringContaining('"message":"Berth?"'),
    ]);
    await bench.handle(notice(inputRequests));
    expect(bench.sent).toHaveLength(1);
    seen.length = 0;
    const inputResponses = { berth: { action: "accept", content: { n: 4 } } };
    await bench.handle(exchangeWith(requestOf("tasks/update", { taskId: "t-1", inputResponses }), modern));
    expect(seen).toContain("response client-to-server elicitation/create asked");
  });

  it("are recognized by shape if the request is unknown", async () => {
    const seen: unknown[] = [];
    const bench = createPolicyBench({
      response: ({ method, direction }) => {
        if (direction === "client-to-server") seen.push(method);
        return allow();
      },
    });
    const inputResponses = {
      a: { action: "decline" },
      b: { roots: [] },
      c: { role: "assistant", content: { type: "text", text: "" }, model: "m" },
    };
    await bench.handle(exchangeWith(call({ inputResponses }), modern));
    expect(seen).toEqual(["elicitation/create", "roots/list", "sampling/createMessage"]);
  });

  it("refuse the whole message if one is refused", async () => {
    const asking = createPolicyBench(
      { request: ({ method }) => (method === "roots/list" ? deny() : allow()) },
      answering(result),
    );
    const refused = await asking.handle(exchangeWith(call(), modern));
    expect(valueOf(refused.message)).toMatchObject({
      id: 1,
      error: { code: 4030, data: { executed: true } },
    });
    const answered = createPolicyBench({
      response: ({ method }) => (method === "elicitation/create" ? deny() : allow()),
    });
    const inputResponses = { berth: { action: "accept", content: {} } };
    const reply = await answered.handle(exchangeWith(call({ inputResponses }), modern));
    expect(valueOf(reply.message)).toMatchObject({ id: 1, error: { code: 4030 } });
    expect(answered.sent).toHaveLength(0);
  });

  it("pass in the form that the policy gave them", async () => {
    const bench = createPolicyBench(
      {
        request: ({ method }) =>
          method === "elicitation/create" ? allow({ change: { set: { "/params/message": "?" } } }) : allow(),
        response: ({ method }) =>
          method === "elicitation/create" ? allow({ change: { set: { "/result/content/n": 1 } } }) : allow(),
      },
      answering(result),
    );
    const inputResponses = { berth: { action: "accept", content: { n: 4 } } };
    const reply = await bench.handle(exchangeWith(call({ inputResponses, requestState: "s" }), modern));
    expect(textOf(reply.message)).toContain(
      '{"berth":{"method":"elicitation/create","params":{"message":"?"}},"dirs":{"method":"roots/list"}}',
    );
    expect(valueOf(bench.sent[0]?.message)).toMatchObject({
      params: { inputResponses: { berth: { action: "accept", content: { n: 1 } } }, requestState: "s" },
    });
  });

  it.each([[{ berth: { weird: 1 } }], [{ berth: 5 }], [[]]])(
    "refuse what nobody can understand: %j",
    async (inputResponses) => {
      const bench = createPolicyBench({});
      const reply = await bench.handle(exchangeWith(call({ inputResponses }), modern));
      expect(bench.sent).toHaveLength(0);
      expect(valueOf(reply.message)).toMatchObject({
        error: { code: -32602, data: { reason: "not_evaluable" } },
      });
    },
  );

  it("are not evaluated again if a bridge put them into the result", async () => {
    const seen: unknown[] = [];
    const bench = createPolicyBench(
      {
        request: ({ method }) => {
          seen.push(method);
          return allow();
        },
      },
      answering(result, { hasCheckedInputRequests: true }),
    );
    await bench.handle(exchangeWith(call(), modern));
    expect(seen).toEqual(["tools/call"]);
    // The answer that the bridge takes out of a retry was decided about with that.
    const responses: unknown[] = [];
    const asking = createPolicyBench({
      response: ({ method }) => {
        responses.push(method);
        return deny();
      },
    });
    const question = requestOf("roots/list");
    const reply = await asking.handle(exchangeWith(question, { ...modern, direction: "server-to-client" }));
    expect(reply.message?.kind).toBe("result");
    expect(responses).toEqual([]);
  });
});
