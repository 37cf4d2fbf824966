import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { newestLegacy, newestModern, type Revision } from "../../src/protocol/revisions.ts";
import { eventually } from "../support/eventually.ts";
import { type FakeUpstream, fakeUpstream, type UpstreamCall } from "../support/fake-upstream.ts";
import { openSession } from "../support/legacy-session.ts";
import { sentMessage } from "../support/legacy-upstream.ts";
import { type LocalGateway, openGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";

type Json = Readonly<Record<string, unknown>>;

interface Answer {
  readonly result?: {
    readonly tools: readonly { readonly name: string }[];
    readonly nextCursor?: string;
    readonly content?: readonly { readonly text: string }[];
    readonly _meta?: {
      readonly "headgate/degraded"?: readonly { readonly upstream: string; readonly reason: string }[];
    };
  };
  readonly error?: { readonly message: string };
}

/** Answers a list; nothing where it answers by itself, or never. */
type Listing = (cursor: string | undefined, call: UpstreamCall) => Json | undefined | void;

const toolsOf = (names: readonly string[], nextCursor?: string): Json => ({
  tools: names.map((name) => ({ name, inputSchema: { type: "object" } })),
  nextCursor,
});

/** A listing of these pages, with cursors of some length. */
const paged =
  (pages: readonly (readonly string[])[], cursorLength = 2): Listing =>
  (cursor) => {
    const index = cursor === undefined ? 0 : Number(cursor);
    const next = String(index + 1).padStart(cursorLength, "0");
    return toolsOf(pages[index] ?? [], index + 1 < pages.length ? next : undefined);
  };

/** Legacy servers behind one address, each with a path of its own; a call is answered with the server and the tool. */
async function openMembers(listingOf: (member: number) => Listing): Promise<FakeUpstream> {
  return fakeUpstream((call) => {
    if (call.method !== "POST") return call.replyRaw(405);
    const member = Number(call.path.slice(1));
    const { id, method, params = {} } = sentMessage(call);
    if (id === undefined) return call.replyRaw(202);
    const serverInfo = { name: "fake", version: "1" };
    const own =
      method === "initialize"
        ? { protocolVersion: params["protocolVersion"], capabilities: { tools: {} }, serverInfo }
        : method === "tools/call"
          ? { content: [{ type: "text", text: `${member} ${String(params["name"])}` }] }
          : listingOf(member)(params["cursor"] as string | undefined, call);
    if (own === undefined) return undefined;
    return call.reply({ jsonrpc: "2.0", id, ...("code" in own ? { error: own } : { result: own }) });
  });
}

const upstreamsAt = ({ url }: FakeUpstream, count: number) =>
  Object.fromEntries(
    Array.from({ length: count }, (_, index) => {
      const member = { url: new URL(`/${index}`, url).href, era: "legacy" } as const;
      return [`m${index}`, member];
    }),
  );

/** Sends requests and reads their answers, with what a list says of all its pages. */
async function connect({ url }: LocalGateway, revision: Revision) {
  let id = 0;
  const session = revision === newestModern ? undefined : await openSession(url, revision);
  const send = async (method: string, params: Json = {}): Promise<Answer> => {
    const { json, events } =
      session === undefined
        ? await postModern(url, modernRequest(++id, method, params))
        : await session.post({ jsonrpc: "2.0", id: ++id, method, params });
    return (json ?? JSON.parse(events.at(-1)?.data ?? "null")) as Answer;
  };
  const list = async () => {
    const tools: string[] = [];
    const degraded = new Map<string, string>();
    let cursor: string | undefined;
    do {
      const { result, error } = await send("tools/list", cursor === undefined ? {} : { cursor });
      if (result === undefined) throw new Error(error?.message);
      tools.push(...result.tools.map(({ name }) => name));
      for (const { upstream, reason } of result._meta?.["headgate/degraded"] ?? []) degraded.set(upstream, reason);
      cursor = result.nextCursor;
    } while (cursor !== undefined);
    return { tools, degraded: Object.fromEntries(degraded) };
  };
  return { send, list };
}

type Client = Awaited<ReturnType<typeof connect>>;

describe.each([newestLegacy, newestModern])("the list of several servers, with a client of %s", (revision) => {
  const most = 5;
  let listings: readonly Listing[] = [];
  let members: FakeUpstream;
  const gateways = new Map<number, LocalGateway>();

  beforeAll(async () => {
    members = await openMembers((member) => listings[member] ?? paged([]));
    const upstreams = upstreamsAt(members, most);
    for (const page of [1, 3, 1000])
      gateways.set(page, await openGateway({ routes: { all: { upstreams, federation: { listing: { page } } } } }));
  });

  afterAll(async () => {
    for (const gateway of gateways.values()) await gateway[Symbol.asyncDispose]();
    await members[Symbol.asyncDispose]();
  });

  it("is what all have, in order and once each, however it is split into servers and pages", async () => {
    const clients = new Map(
      await Promise.all(
        [...gateways].map(async ([page, gateway]) => [page, await connect(gateway, revision)] as const),
      ),
    );
    const split = fc.array(fc.array(fc.nat(4), { maxLength: 4 }), { minLength: 1, maxLength: most });
    const length = fc.constantFrom(2, 1500, 4096);
    await fc.assert(
      fc.asyncProperty(split, fc.constantFrom(...clients.keys()), length, async (sizes, page, cursorLength) => {
        let count = 0;
        const pages = sizes.map((own) => own.map((size) => Array.from({ length: size }, () => `t${count++}`)));
        listings = pages.map((own) => paged(own, cursorLength));
        const all = pages.flatMap((own, member) => own.flat().map((name) => `m${member}__${name}`));
        expect(await clients.get(page)?.list()).toEqual({ tools: all, degraded: {} });
        // Also for a client that reads one page only, where that has room for all.
        const { result } = (await clients.get(page)?.send("tools/list")) ?? {};
        expect(result?.tools.map(({ name }) => name)).toEqual(all.slice(0, page));
        if (all.length < page) expect(result?.nextCursor).toBeUndefined();
      }),
      { numRuns: 25 },
    );
  });
});

/** What goes wrong at one server, what is left of its list, and why. */
const faults: readonly (readonly [what: string, Listing, left: readonly string[], reason: RegExp | undefined])[] = [
  ["hangs up", (_cursor, call) => call.hangUp(), [], /./u],
  ["answers 429", (_cursor, call) => call.replyRaw(429, { "retry-after": "30" }), [], /./u],
  ["answers 500", (_cursor, call) => call.replyRaw(500), [], /./u],
  ["answers an error", () => ({ code: -32603, message: "at 10.0.0.1" }), [], /^the server answered error -32603$/u],
  ["answers what is no JSON", (_cursor, call) => call.replyRaw(200, json, "{"), [], /./u],
  [
    "refuses its own cursor",
    (cursor) => (cursor === undefined ? toolsOf(["x"], "next") : { code: -32602, message: "bad cursor" }),
    ["x"],
    /refuses its own cursor/u,
  ],
  ["repeats its cursor", () => toolsOf(["x"], "same"), ["x"], /does not advance/u],
  ["makes up cursors without end", (cursor = "") => toolsOf([], `${cursor}+`), [], /does not advance/u],
  ["sends a cursor beyond all bounds", () => toolsOf(["x"], "c".repeat(100_000)), ["x"], /longer than/u],
  ["has no such lists", () => ({ code: -32601, message: "no" }), [], undefined],
  ["has ten thousand tools", paged(hundredsOf(100)), hundredsOf(100).flat(), undefined],
  // Last, for its list is waited for until it fails.
  ["never answers a list", () => undefined, [], /did not answer in time/u],
];

const json = { "content-type": "application/json" };

function hundredsOf(pages: number): readonly (readonly string[])[] {
  return Array.from({ length: pages }, (_, page) => Array.from({ length: 100 }, (__, at) => `t${page}_${at}`));
}

const places = [newestLegacy, newestModern].flatMap((revision) => [3, 20].map((count) => ({ revision, count })));

describe.each(places)("one of $count servers, with a client of $revision", ({ revision, count }) => {
  let bad = 0;
  let listing: Listing = paged([]);
  let members: FakeUpstream;
  let gateway: LocalGateway;
  let client: Client;

  beforeAll(async () => {
    members = await openMembers((member) => (member === bad ? listing : paged([["a"], ["b", "c"]])));
    const federation = { listing: { wait: "1s", stale: "1ms" } };
    gateway = await openGateway({ routes: { all: { upstreams: upstreamsAt(members, count), federation } } });
    client = await connect(gateway, revision);
  });

  afterAll(async () => {
    await gateway[Symbol.asyncDispose]();
    await members[Symbol.asyncDispose]();
  });

  it.each(faults)("%s: the others go on, and the client is told", async (what, broken, left, reason) => {
    bad = [0, count - 1, Math.floor(count / 2)][what.length % 3] ?? 0;
    listing = broken;
    const expected = Array.from({ length: count }, (_, member) =>
      (member === bad ? left : ["a", "b", "c"]).map((name) => `m${member}__${name}`),
    );
    const degraded = reason === undefined ? {} : { [`m${bad}`]: expect.stringMatching(reason) as string };
    // On a busy machine, a healthy server may be slower than the wait; then it is in a later list.
    await eventually(async () => {
      expect(await client.list()).toEqual({ tools: expected.flat(), degraded });
    });
    const other = bad === 0 ? 1 : 0;
    const { result } = await client.send("tools/call", { name: `m${other}__a`, arguments: {} });
    expect(result?.content?.[0]?.text).toBe(`${other} a`);
  });
});
