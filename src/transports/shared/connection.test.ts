import { describe, expect, it } from "vitest";

import { exchangeWith, valueOf } from "../../../test/support/exchange.ts";
import { createFakeTime, settled } from "../../../test/support/fake-time.ts";
import { messageOf, notificationOf, requestOf } from "../../../test/support/messages.ts";
import { GatewayError } from "../../errors.ts";
import type { Exchange } from "../../core/exchange.ts";
import { defaultLimits, type Message } from "../../protocol/message.ts";
import { perTurn } from "../../lib/turn-limiter.ts";
import type { ChannelEvents, UpstreamLink } from "../transport.ts";
import { createSharedLinks } from "./connection.ts";

const lingerMs = 1000;

interface Wire {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: unknown;
  readonly error?: Readonly<Record<string, unknown>>;
}

/** One session of a client, with everything that it was told. */
interface Client {
  readonly link: UpstreamLink;
  readonly heard: unknown[];
  /** The requests on whose streams messages came, in the order of `heard`. */
  readonly related: (Exchange | undefined)[];
  readonly closed: GatewayError[];
  readonly exchanges: Exchange[];
  /** Sends a request; resolves with the answer, read as JSON. */
  readonly ask: (method: string, params?: unknown, id?: string | number) => Promise<unknown>;
  readonly tell: (message: Message) => Promise<unknown>;
  readonly shakeHands: (version?: string, id?: string | number) => Promise<unknown>;
}

/** A fake server behind shared links: what it got, and ways to speak. */
function bench() {
  const time = createFakeTime();
  const got: Wire[] = [];
  const opened: ChannelEvents[] = [];
  const ended: string[] = [];
  const links = createSharedLinks(
    () => async (events) => {
      opened.push(events);
      return {
        incarnation: `child-${opened.length}`,
        send: (bytes) => void got.push(JSON.parse(bytes.toString()) as Wire),
        close: async (reason) => {
          ended.push(reason);
          events.closed(new GatewayError("upstream_unreachable", reason));
        },
      };
    },
    {
      limits: defaultLimits,
      context: (incarnation) => ({ type: "stdio", incarnation }),
      setTimer: time.setTimer,
      lingerMs,
    },
  );

  function client(key = ""): Client {
    const heard: unknown[] = [];
    const related: (Exchange | undefined)[] = [];
    const closed: GatewayError[] = [];
    const exchanges: Exchange[] = [];
    const link = links.open(key, {
      message: (message, about) => {
        heard.push(valueOf(message));
        related.push(about);
      },
      malformed: () => {},
      error: () => {},
      closed: (error) => void closed.push(error),
    });
    const ask: Client["ask"] = async (method, params = {}, id = 1) => {
      const exchange = exchangeWith(requestOf(method, params, id));
      exchanges.push(exchange);
      return valueOf((await link.request(exchange)).message);
    };
    const tell: Client["tell"] = async (message) => link.send(exchangeWith(message));
    const shakeHands: Client["shakeHands"] = async (version = "2025-11-25", id = "hello") => {
      const answer = ask("initialize", { protocolVersion: version, capabilities: {} }, id);
      await settled();
      if (got.at(-1)?.method === "initialize") say({ id: got.at(-1)?.id, result: agreed });
      const said = await answer;
      await tell(notificationOf("notifications/initialized"));
      return said;
    };
    return { link, heard, related, closed, exchanges, ask, tell, shakeHands };
  }

  function say(message: object): void {
    opened.at(-1)?.message(Buffer.from(JSON.stringify({ jsonrpc: "2.0", ...message })));
  }
  const last = (): Wire => got.at(-1) ?? {};
  const methods = (): unknown[] => got.map(({ method }) => method);
  return { time, got, opened, ended, links, client, say, last, methods };
}

const agreed = { protocolVersion: "2025-06-18", capabilities: {}, serverInfo: { name: "one", version: "1" } };

/** Two sessions that have shaken hands. */
async function pair() {
  const at = bench();
  const ann = at.client();
  const bob = at.client();
  await ann.shakeHands();
  await bob.shakeHands();
  at.got.length = 0;
  return { ...at, ann, bob };
}

describe("the handshake of a shared server", () => {
  it("is done once; later clients get the same answer under their own ids, whatever version they ask for", async () => {
    const { client, methods, opened } = bench();
    const ann = client();
    const bob = client();
    expect(await ann.shakeHands("2025-11-25", "a")).toEqual({ jsonrpc: "2.0", id: "a", result: agreed });
    expect(await bob.shakeHands("2024-11-05", 7)).toEqual({ jsonrpc: "2.0", id: 7, result: agreed });
    expect(methods()).toEqual(["initialize", "notifications/initialized"]);
    expect(opened).toHaveLength(1);
  });

  it("is shared by all clients that connect meanwhile, and continues when the first one leaves", async () => {
    const { client, say, last, methods } = bench();
    const ann = client();
    const bob = client();
    const first = ann.ask("initialize", {}, "a");
    const second = bob.ask("initialize", {}, "b");
    await settled();
    expect(methods()).toEqual(["initialize"]);
    ann.exchanges[0]?.cancellation.cancel("session-ended");
    await expect(first).rejects.toMatchObject({ code: "cancelled" });
    await ann.link.close("gone");
    say({ id: last().id, result: agreed });
    expect(await second).toEqual({ jsonrpc: "2.0", id: "b", result: agreed });
  });

  it("is tried anew after the server has refused it", async () => {
    const { client, say, last, methods } = bench();
    const ann = client();
    const first = ann.ask("initialize", {}, "a");
    await settled();
    say({ id: last().id, error: { code: -32_602, message: "no" } });
    expect(await first).toMatchObject({ id: "a", error: { message: "no" } });
    expect(await client().shakeHands()).toMatchObject({ result: agreed });
    expect(methods()).toEqual(["initialize", "initialize", "notifications/initialized"]);
  });

  it("that is not answered in time ends the server, so that the next client finds another", async () => {
    const { client, opened, ended } = bench();
    const ann = client();
    const bob = client();
    const first = ann.ask("initialize");
    const second = bob.ask("initialize");
    await settled();
    ann.exchanges[0]?.cancellation.cancel("timeout");
    await expect(first).rejects.toMatchObject({ code: "upstream_timeout" });
    await expect(second).rejects.toMatchObject({ code: "upstream_unreachable" });
    expect(ended).toHaveLength(1);
    expect(bob.closed).toHaveLength(1);
    await client().shakeHands();
    expect(opened).toHaveLength(2);
  });
});

describe("requests on a shared server", () => {
  it("[SC-059] with the same id and token stay apart, and answers come in any order", async () => {
    const { ann, bob, got, say } = await pair();
    const params = { name: "x", _meta: { progressToken: "t" } };
    const answers = [ann.ask("tools/call", params, 1), bob.ask("tools/call", params, 1)];
    await settled();
    const [first, second] = got;
    expect(first?.id).not.toEqual(second?.id);
    say({ method: "notifications/progress", params: { progressToken: second?.id, progress: 1 } });
    say({ id: second?.id, result: { of: "bob" } });
    say({ id: first?.id, result: { of: "ann" } });
    expect(await Promise.all(answers)).toEqual([
      { jsonrpc: "2.0", id: 1, result: { of: "ann" } },
      { jsonrpc: "2.0", id: 1, result: { of: "bob" } },
    ]);
    expect(ann.heard).toEqual([]);
    expect(bob.heard).toMatchObject([{ params: { progressToken: "t", progress: 1 } }]);
    expect(bob.related).toEqual([bob.exchanges.at(-1)]);
  });

  it("[SC-059] are cancelled by their own client only", async () => {
    const { ann, bob, got, last } = await pair();
    const call = ann.ask("tools/call", { name: "x" }, 1);
    await settled();
    const { id } = last();
    const cancel = notificationOf("notifications/cancelled", { requestId: 1 });
    await bob.tell(cancel);
    expect(got).toHaveLength(1);
    await ann.tell(cancel);
    expect(last()).toMatchObject({ method: "notifications/cancelled", params: { requestId: id } });
    ann.exchanges.at(-1)?.cancellation.cancel("cancelled");
    await expect(call).rejects.toMatchObject({ code: "cancelled" });
    expect(got).toHaveLength(2);
  });

  it("that take too long are cancelled there too", async () => {
    const { ann, last } = await pair();
    const call = ann.ask("tools/call", { name: "x" }, 1);
    await settled();
    const { id } = last();
    ann.exchanges.at(-1)?.cancellation.cancel("timeout");
    await expect(call).rejects.toMatchObject({ code: "upstream_timeout" });
    expect(last()).toMatchObject({ method: "notifications/cancelled", params: { requestId: id } });
  });

  it("that were given up before they could be sent are not sent", async () => {
    const { ann, got } = await pair();
    const exchange = exchangeWith(requestOf("tools/call", {}));
    exchange.cancellation.cancel("client-gone");
    await expect(ann.link.request(exchange)).rejects.toMatchObject({ code: "cancelled" });
    expect(got).toEqual([]);
  });
});

describe("what a shared server says of itself", () => {
  it("reaches everybody who has shaken hands", async () => {
    const { ann, bob, client, say } = await pair();
    const new1 = client();
    say({ method: "notifications/tools/list_changed" });
    say({ method: "notifications/message", params: { level: "info", data: "hi" } });
    expect([ann.heard.length, bob.heard.length, new1.heard.length]).toEqual([2, 2, 0]);
  });

  it("reaches thousands a few per turn of the event loop, and nothing that comes later overtakes it", async () => {
    const { client, say, last } = bench();
    const clients = Array.from({ length: 3 * perTurn }, () => client());
    for (const each of clients) await each.shakeHands();
    const [lastOne] = clients.slice(-1);
    say({ method: "notifications/tools/list_changed" });
    const told = (): number => clients.filter(({ heard }) => heard.length > 0).length;
    expect(told()).toBe(perTurn);
    const call = lastOne?.ask("tools/call", { name: "x" }).then(() => lastOne.heard.length);
    await settled();
    say({ method: "notifications/message", params: { level: "info", data: "later" } });
    say({ id: last().id, result: {} });
    expect(await call).toBe(2);
    await expect.poll(told).toBe(clients.length);
    expect(lastOne?.heard).toMatchObject([
      { method: "notifications/tools/list_changed" },
      { method: "notifications/message" },
    ]);
  });

  it("does not reach those that have left before their turn", async () => {
    const { client, say } = bench();
    const clients = Array.from({ length: 2 * perTurn }, () => client());
    for (const each of clients) await each.shakeHands();
    const [left] = clients.slice(-1);
    say({ method: "notifications/tools/list_changed" });
    await left?.link.close("gone");
    await expect.poll(() => clients.at(-2)?.heard.length).toBe(1);
    expect(left?.heard).toEqual([]);
  });

  it("of resources reaches those that subscribed to them, or to what they are part of", async () => {
    const { ann, bob, say, last } = await pair();
    const subscribe = async (who: Client, uri: string): Promise<void> => {
      const answer = who.ask("resources/subscribe", { uri });
      await settled();
      say({ id: last().id, result: {} });
      await answer;
    };
    const update = (uri: string): void => say({ method: "notifications/resources/updated", params: { uri } });
    update("file:///a");
    await subscribe(ann, "file:///a");
    await subscribe(bob, "file:///b");
    update("file:///a");
    update("file:///b/part");
    expect(ann.heard).toMatchObject([{ params: { uri: "file:///a" } }]);
    expect(bob.heard).toMatchObject([{ params: { uri: "file:///b/part" } }]);
    update("file:///c");
    expect([ann.heard.length, bob.heard.length]).toEqual([2, 2]);
  });

  it("of resources goes on for one client when another does not want it any more", async () => {
    const { ann, bob, say, last, got } = await pair();
    const uri = "file:///a";
    for (const who of [ann, bob]) {
      const answer = who.ask("resources/subscribe", { uri });
      await settled();
      say({ id: last().id, result: {} });
      await answer;
    }
    got.length = 0;
    expect(await ann.ask("resources/unsubscribe", { uri }, "off")).toEqual({
      jsonrpc: "2.0",
      id: "off",
      result: {},
    });
    expect(got).toEqual([]);
    say({ method: "notifications/resources/updated", params: { uri } });
    expect([ann.heard.length, bob.heard.length]).toEqual([0, 1]);
    const lastOne = bob.ask("resources/unsubscribe", { uri });
    await settled();
    expect(last().method).toBe("resources/unsubscribe");
    say({ id: last().id, result: {} });
    await lastOne;
  });
});

describe("what a shared server asks", () => {
  const question = { id: 0, method: "elicitation/create", params: { message: "sure?" } };

  it("goes to the only client, with the only call that runs, and its answer back", async () => {
    const { ann, bob, say, got, last } = await pair();
    await bob.link.close("gone");
    const call = ann.ask("tools/call", { name: "x" }, 1);
    await settled();
    const { id } = last();
    say(question);
    expect(ann.heard).toMatchObject([question]);
    expect(ann.related).toEqual([ann.exchanges.at(-1)]);
    await ann.tell(messageOf({ jsonrpc: "2.0", id: 0, result: { action: "accept" } }));
    expect(last()).toEqual({ jsonrpc: "2.0", id: 0, result: { action: "accept" } });
    say({ id, result: {} });
    await call;
    expect(got.filter(({ error }) => error !== undefined)).toEqual([]);
  });

  it("is refused when there are several, and shown to none of them", async () => {
    const { ann, bob, say, last } = await pair();
    say(question);
    await settled();
    expect(last()).toMatchObject({ id: 0, error: { code: -32_601, data: { origin: "gateway" } } });
    expect([ann.heard, bob.heard]).toEqual([[], []]);
  });

  it("is answered at once where it only asks whether anybody is there", async () => {
    const { say, last } = await pair();
    say({ id: "p", method: "ping" });
    await settled();
    expect(last()).toEqual({ jsonrpc: "2.0", id: "p", result: {} });
  });

  it("is cancelled at the client that was asked", async () => {
    const { ann, bob, say, client } = await pair();
    await bob.link.close("gone");
    say(question);
    const late = client();
    await late.shakeHands();
    say({ method: "notifications/cancelled", params: { requestId: 0 } });
    expect(ann.heard).toMatchObject([question, { method: "notifications/cancelled" }]);
    expect(late.heard).toEqual([]);
  });

  it("hears of progress from the client that was asked, and from no other", async () => {
    const { ann, bob, say, got, client } = await pair();
    await bob.link.close("gone");
    say({ ...question, params: { ...question.params, _meta: { progressToken: 5 } } });
    const late = client();
    await late.shakeHands();
    const progress = (progressToken: unknown) =>
      notificationOf("notifications/progress", { progressToken, progress: 1 });
    for (const token of [5, "5", 0, undefined]) await late.tell(progress(token));
    for (const token of ["5", 6, undefined]) await ann.tell(progress(token));
    const heard = () => got.filter(({ method }) => method === "notifications/progress").length;
    expect(heard()).toBe(0);
    await ann.tell(progress(5));
    expect(heard()).toBe(1);
    await ann.tell(messageOf({ jsonrpc: "2.0", id: 0, result: { action: "accept" } }));
    await ann.tell(progress(5));
    expect(heard()).toBe(1);
  });

  it("about a task goes to the client whose task it is", async () => {
    const { ann, bob, say, last } = await pair();
    const call = bob.ask("tools/call", { name: "x", task: {} }, 1);
    await settled();
    say({ id: last().id, result: { task: { taskId: "t1", status: "working" } } });
    await call;
    const about = { "io.modelcontextprotocol/related-task": { taskId: "t1" } };
    say({ ...question, params: { ...question.params, _meta: about } });
    expect([ann.heard.length, bob.heard.length]).toEqual([0, 1]);
  });
});

describe("the life of a shared server", () => {
  it("goes on while anybody is there, and work of the one who left is cancelled", async () => {
    const { ann, bob, got, say, last, ended, time } = await pair();
    const call = ann.ask("tools/call", { name: "x" }, 1);
    await settled();
    const { id } = last();
    await ann.link.close("the session has ended");
    await expect(call).rejects.toMatchObject({ code: "cancelled" });
    expect(last()).toMatchObject({ method: "notifications/cancelled", params: { requestId: id } });
    await time.advance(lingerMs * 10);
    expect(ended).toEqual([]);
    const other = bob.ask("ping", {}, 1);
    await settled();
    say({ id: got.at(-1)?.id, result: {} });
    expect(await other).toMatchObject({ id: 1, result: {} });
  });

  it("ends a little after the last has left, unless somebody comes back", async () => {
    const { ann, bob, client, ended, time, opened } = await pair();
    await ann.link.close("bye");
    await bob.link.close("bye");
    await time.advance(lingerMs - 1);
    const back = client();
    await time.advance(lingerMs * 2);
    expect(ended).toEqual([]);
    expect(await back.shakeHands()).toMatchObject({ result: agreed });
    await back.link.close("bye");
    await time.advance(lingerMs);
    expect(ended).toEqual(["bye"]);
    await client().shakeHands();
    expect(opened).toHaveLength(2);
  });

  it("that ends by itself fails all calls and ends all sessions", async () => {
    const { ann, bob, opened, client } = await pair();
    const call = ann.ask("tools/call", { name: "x" });
    await settled();
    opened[0]?.closed(new GatewayError("upstream_unreachable", "it crashed"));
    await expect(call).rejects.toMatchObject({ message: "it crashed" });
    expect([ann.closed.length, bob.closed.length]).toEqual([1, 1]);
    await expect(bob.ask("ping")).rejects.toMatchObject({ code: "upstream_unreachable" });
    expect(await client().shakeHands()).toMatchObject({ result: agreed });
  });

  it("is apart for each key", async () => {
    const { client, opened } = bench();
    await client("ann").shakeHands();
    await client("bob").shakeHands();
    await client("ann").shakeHands();
    expect(opened).toHaveLength(2);
  });

  it("ends with all others when the route does", async () => {
    const { links, ended, ann } = await pair();
    await links.close("the gateway is shutting down");
    expect(ended).toEqual(["the gateway is shutting down"]);
    expect(ann.closed).toHaveLength(1);
  });
});
