import fc from "fast-check";
import { describe, expect, it } from "vitest";

import { exchangeWith, textOf, valueOf } from "../../../test/support/exchange.ts";
import { createBench, echo } from "../../../test/support/interceptors.ts";
import { envelopeOf, notificationOf, requestOf, resultOf } from "../../../test/support/messages.ts";
import { noReply } from "../pipeline.ts";
import { mirroredHeadersOf } from "../../protocol/http/mirrored-headers.ts";
import { errorMessage } from "../reply.ts";
import { block, delay, mock, modify, proceed } from "./action.ts";
import { composeInterceptors } from "./compose.ts";
import { defineInterceptor, type InterceptorOptions, type MessageView } from "./interceptor.ts";

/** Interceptors that only note their names, and the notes. */
function createTrace(options: readonly Omit<InterceptorOptions, "onMessage">[]): {
  interceptors: InterceptorOptions[];
  seen: string[];
} {
  const seen: string[] = [];
  const interceptors = options.map((option): InterceptorOptions => ({
    ...option,
    onMessage: ({ phase }) => {
      seen.push(`${option.name} ${phase}`);
      return proceed();
    },
  }));
  return { interceptors, seen };
}

describe("no interceptors at all", () => {
  it("[SC-066] leave the handler the very one it was", () => {
    const { time, board } = createBench([]);
    const identity = composeInterceptors([], {
      clock: time.clock,
      setTimer: time.setTimer,
      heldMessages: board,
    });
    expect(identity(echo)).toBe(echo);
  });
});

describe("the order of interceptors", () => {
  it("[SC-063] is by priority, lowest first, then by name, for requests and responses alike", async () => {
    const { interceptors, seen } = createTrace([
      { name: "b" },
      { name: "late", priority: 10 },
      { name: "B" },
      { name: "a" },
      { name: "early", priority: -10 },
    ]);
    await createBench(interceptors).handle(exchangeWith(requestOf("ping")));
    const order = ["early", "B", "a", "b", "late"];
    expect(seen).toEqual(["request", "response"].flatMap((phase) => order.map((name) => `${name} ${phase}`)));
  });

  it("[SC-063] does not depend on the order they are given in", async () => {
    const options = [0, 1, 2, 3, 4, 5].map((n) => ({ name: `i${n}`, priority: n % 3 }));
    await fc.assert(
      fc.asyncProperty(fc.shuffledSubarray(options, { minLength: 6 }), async (shuffled) => {
        const { interceptors, seen } = createTrace(shuffled);
        await createBench(interceptors).handle(exchangeWith(notificationOf("x")));
        expect(seen.map((note) => note.split(" ")[0])).toEqual(["i0", "i3", "i1", "i4", "i2", "i5"]);
      }),
    );
  });

  it("refuses two of one name", () => {
    const twin = { name: "twin", onMessage: proceed };
    expect(() => createBench([twin, { ...twin, priority: 1 }])).toThrow(/two interceptors are named twin/u);
  });

  it("ends at the first that refuses or answers", async () => {
    const { interceptors, seen } = createTrace([{ name: "a" }, { name: "c" }]);
    const refuse = { name: "b", onMessage: () => block({ reason: "no" }) };
    const { sent, handle } = createBench([...interceptors, refuse]);
    await handle(exchangeWith(requestOf("ping")));
    expect(seen).toEqual(["a request"]);
    expect(sent).toEqual([]);
  });
});

describe("what interceptors see", () => {
  it("[SC-063] is each message with its metadata, in both directions", async () => {
    const views: Partial<MessageView>[] = [];
    const { handle } = createBench([
      {
        name: "look",
        onMessage: ({ message, metadata, direction, phase, request }) => {
          views.push({ message, metadata, direction, phase, request });
          return proceed();
        },
      },
    ]);
    const session = { id: "ours", label: "ours", upstreamId: "theirs" };
    const call = requestOf("tools/call", { name: "weigh" });
    const question = requestOf("elicitation/create", {}, "q");
    const answer = await handle(exchangeWith(call, { session }));
    await handle(exchangeWith(question, { direction: "server-to-client" }));
    await handle(exchangeWith(notificationOf("notifications/message"), { direction: "server-to-client" }));
    expect(views).toMatchObject([
      {
        message: call,
        direction: "client-to-server",
        phase: "request",
        request: undefined,
        metadata: { target: { type: "tool", name: "weigh" }, session: "ours", revision: "2025-11-25" },
      },
      { message: answer.message, direction: "server-to-client", phase: "response", request: call },
      { message: question, direction: "server-to-client", phase: "request" },
      { direction: "client-to-server", phase: "response", request: question, metadata: { kind: "result" } },
      { direction: "server-to-client", phase: "request", metadata: { method: "notifications/message" } },
    ]);
  });

  it("is limited by direction, phase and method; a response counts by its request's method", async () => {
    const { interceptors, seen } = createTrace([
      { name: "answers of servers", directions: ["server-to-client"], phase: "response" },
      { name: "requests", phase: "request" },
      { name: "tools", methods: ["tools/*"] },
    ]);
    const { handle } = createBench(interceptors);
    await handle(exchangeWith(requestOf("tools/call")));
    await handle(exchangeWith(requestOf("ping"), { direction: "server-to-client" }));
    expect(seen).toEqual([
      "requests request",
      "tools request",
      "answers of servers response",
      "tools response",
      "requests request",
    ]);
  });

  it("includes an answer to nothing we know of, whatever the method limit: it might be anything", async () => {
    const { interceptors, seen } = createTrace([{ name: "tools", methods: ["tools/*"] }]);
    await createBench(interceptors).handle(exchangeWith(resultOf({})));
    expect(seen).toEqual(["tools response"]);
  });

  it("does not include answers that were made here", async () => {
    const { interceptors, seen } = createTrace([{ name: "a" }]);
    const { handle } = createBench([...interceptors, { name: "b", onMessage: () => mock({ result: {} }) }]);
    await handle(exchangeWith(requestOf("ping")));
    expect(seen).toEqual(["a request"]);
  });

  it("reaches each message of an event stream on its own, between request and response", async () => {
    const { interceptors, seen } = createTrace([{ name: "i" }]);
    const progress = exchangeWith(notificationOf("notifications/progress"), {
      direction: "server-to-client",
    });
    const bench = createBench(interceptors, async (exchange) => {
      if (exchange.message.kind !== "request") return noReply;
      await bench.handle(progress);
      await bench.handle(progress);
      return echo(exchange);
    });
    await bench.handle(exchangeWith(requestOf("tools/call")));
    expect(seen).toEqual(["i request", "i request", "i request", "i response"]);
  });
});

describe("a message that nobody touches", () => {
  it("[SC-066] is the same exchange for the peer, and its reply the same for the client", async () => {
    const reply = { message: resultOf({}), status: 200 };
    const { handle, sent } = createBench([{ name: "i", onMessage: proceed }], async () => reply);
    const exchange = exchangeWith(requestOf("ping"));
    expect(await handle(exchange)).toBe(reply);
    expect(sent).toEqual([exchange]);
    expect(sent[0]).toBe(exchange);
  });

  it("keeps what the peer threw", async () => {
    const failure = new Error("unreachable");
    const { handle } = createBench([{ name: "i", onMessage: proceed }], () => Promise.reject(failure));
    await expect(handle(exchangeWith(requestOf("ping")))).rejects.toBe(failure);
  });
});

describe("a changed message", () => {
  const rename: InterceptorOptions = {
    name: "rename",
    phase: "request",
    onMessage: () => modify({ set: { "/params/name": "count" } }, "renamed"),
  };
  const { revision, era } = { revision: "2026-07-28", era: "modern" } as const;
  const call = requestOf("tools/call", { name: "weigh", _meta: envelopeOf() });

  it("[SC-065] is what later interceptors and the peer get, and what its headers are computed from", async () => {
    const names: (string | undefined)[] = [];
    const after: InterceptorOptions = {
      name: "see",
      onMessage: ({ metadata, request }) => {
        names.push(metadata.target?.name ?? textOf(request));
        return proceed();
      },
    };
    const { handle, sent } = createBench([rename, after]);
    const exchange = exchangeWith(call, { revision, era });
    await handle(exchange);
    const forwarded = sent[0];
    expect(names).toEqual(["count", textOf(forwarded?.message)]);
    expect(forwarded).toMatchObject({ id: exchange.id, original: call });
    expect(forwarded?.message.kind === "request" && mirroredHeadersOf(forwarded.message, revision)).toEqual({
      ok: true,
      headers: [
        ["MCP-Protocol-Version", revision],
        ["Mcp-Method", "tools/call"],
        ["Mcp-Name", "count"],
      ],
    });
  });

  it("[SC-065] is told together with what it was", async () => {
    const { handle, sent, events } = createBench([rename]);
    await handle(exchangeWith(call, { revision, era }));
    expect(events).toMatchObject([
      { interceptor: "rename", action: "modify", outcome: "changed", reason: "renamed", before: call },
    ]);
    expect(events[0]?.after).toBe(sent[0]?.message);
    expect(events[0]?.exchange.original).toBe(call);
  });

  it("[SC-065] keeps its status and id as a response, in either direction", async () => {
    const { handle } = createBench([
      { name: "mask", phase: "response", onMessage: () => modify({ set: { "/result/ok": "masked" } }) },
    ]);
    for (const direction of ["client-to-server", "server-to-client"] as const) {
      const reply = await handle(exchangeWith(requestOf("ping", undefined, "7"), { direction }));
      expect(reply.status).toBe(200);
      expect(textOf(reply.message)).toBe('{"jsonrpc":"2.0","id":"7","result":{"ok":"masked"}}');
    }
  });
});

describe("messages side by side", () => {
  it("keep their order without a wait where interceptors decide at once", () => {
    const { handle, sent } = createBench([
      { name: "a", onMessage: proceed },
      { name: "b", onMessage: () => modify({ set: { "/params": {} } }) },
    ]);
    const ids = [1, 2, 3].map((id) => {
      void handle(exchangeWith(requestOf("ping", undefined, id)));
      return sent.at(-1)?.message.id?.key;
    });
    expect(ids).toEqual(["n:1", "n:2", "n:3"]);
  });

  it("keep their order in a stream that hands on one after the other, also when one is delayed", async () => {
    const { handle, sent, time } = createBench([
      { name: "slow", onMessage: ({ message }) => (message.method === "a" ? delay(100) : proceed()) },
    ]);
    const stream = (async () => {
      await handle(exchangeWith(notificationOf("a")));
      await handle(exchangeWith(notificationOf("b")));
    })();
    await time.advance(100);
    await stream;
    expect(sent.map(({ message }) => message.method)).toEqual(["a", "b"]);
  });

  it("do not hold each other up, and each passes the interceptors in order", async () => {
    const seen: string[] = [];
    const note = (name: string): InterceptorOptions => ({
      name,
      phase: "request",
      onMessage: async ({ message }) => {
        seen.push(`${name}${message.id?.json}`);
        return name === "a" && message.id?.json === "1" ? delay(50) : proceed();
      },
    });
    const { handle, time } = createBench([note("b"), note("a")]);
    const both = Promise.all([1, 2].map((id) => handle(exchangeWith(requestOf("ping", undefined, id)))));
    await time.advance(0);
    expect(seen).toEqual(["a1", "a2", "b2"]);
    await time.advance(50);
    const replies = await both;
    expect(seen).toEqual(["a1", "a2", "b2", "b1"]);
    expect(replies.map(({ message }) => message?.id?.json)).toEqual(["1", "2"]);
    expect(time.pending()).toBe(0);
  });
});

describe("an answer that comes as an exchange of its own", () => {
  const refuse: InterceptorOptions = { name: "refuse", onMessage: () => block({ reason: "no" }) };

  it("[SC-064] is sent on as an error with its id when refused, for somebody waits for it", async () => {
    const { handle, sent } = createBench([refuse]);
    expect(await handle(exchangeWith(resultOf({ secret: 1 }, "q")))).toBe(noReply);
    expect(sent.map(({ message }) => valueOf(message))).toMatchObject([
      { id: "q", error: { code: 4030, message: "no", data: { origin: "gateway" } } },
    ]);
  });

  it("is dropped when refused and without an id", async () => {
    const { handle, sent } = createBench([refuse]);
    const nobody = errorMessage(undefined, { code: -32700, message: "?" });
    expect(await handle(exchangeWith(nobody))).toEqual({ ...noReply, dropped: "policy_denied" });
    expect(sent).toEqual([]);
  });
});

describe("a listener that fails", () => {
  it("changes nothing", async () => {
    const { time, board } = createBench([]);
    const compose = composeInterceptors([defineInterceptor({ name: "i", onMessage: proceed })], {
      clock: time.clock,
      setTimer: time.setTimer,
      heldMessages: board,
      onEvent: () => {
        throw new Error("disk full");
      },
    });
    const reply = await compose(echo)(exchangeWith(requestOf("ping")));
    expect(valueOf(reply.message)).toMatchObject({ result: { ok: true } });
  });
});
