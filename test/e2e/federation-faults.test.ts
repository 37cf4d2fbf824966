import { describe, expect, it } from "vitest";

import { newestLegacy, newestModern, type Revision } from "../../src/protocol/revisions.ts";
import { eventually } from "../support/eventually.ts";
import { fakeUpstream } from "../support/fake-upstream.ts";
import { freePort } from "../support/free-port.ts";
import { handshake } from "../support/legacy-session.ts";
import { openGateway, type LocalGateway } from "../support/local-gateway.ts";
import { modernRequest, postModern } from "../support/modern-request.ts";
import { postHeaders } from "../support/raw-http.ts";
import { createToolServer } from "../support/tool-server.ts";
import { connectV2 } from "../support/v2-client.ts";

const connect = (gateway: LocalGateway, revision: Revision) => connectV2({ via: "http", url: gateway.url }, revision);

const small = (name: string, ...tools: readonly string[]) => ({ server: () => createToolServer({ name, tools }) });

describe.each([newestLegacy, newestModern])("several servers, with a client of %s", (revision) => {
  it("of which some are killed, slow, over their limit or gone: the others go on, and the client is told", async () => {
    await using slow = await fakeUpstream(() => {});
    await using limited = await fakeUpstream((call) => {
      call.replyRaw(429, { "retry-after": "30" });
    });
    const healthy = Object.fromEntries(
      Array.from({ length: 15 }, (_, index) => [`ok${index}`, small(`ok${index}`, "x")]),
    );
    await using gateway = await openGateway({
      routes: {
        all: {
          upstreams: {
            ...healthy,
            killed: { command: process.execPath, args: ["-e", "process.exit(1)"] },
            slow: { url: slow.url },
            limited: { url: limited.url },
            gone: { url: `http://127.0.0.1:${await freePort()}/mcp` },
            last: small("last", "y"),
          },
          federation: { listing: { wait: "1s" } },
        },
      },
    });
    await using client = await connect(gateway, revision);
    // On a busy machine, a healthy server may be slower than the wait; then it is in a later list.
    await eventually(async () => {
      const { tools, _meta } = await client.sdk.listTools();
      expect(tools.map(({ name }) => name)).toEqual([...Object.keys(healthy).map((name) => `${name}__x`), "last__y"]);
      const degraded = _meta?.["headgate/degraded"] as readonly { upstream: string; stale: boolean }[];
      expect(degraded.map(({ upstream, stale }) => [upstream, stale])).toEqual(
        ["killed", "slow", "limited", "gone"].map((name) => [name, false]),
      );
    });
    expect((await client.callTool("last__y")).texts).toEqual(["last.y {}"]);
    await expect(client.callTool("gone__x")).rejects.toThrow(/./u);
    await expect(client.callTool("killed__x")).rejects.toThrow(/./u);
    expect((await client.callTool("ok7__x")).texts).toEqual(["ok7.x {}"]);
  });

  it("all of which are gone: an error and no empty list", async () => {
    const gone = { url: `http://127.0.0.1:${await freePort()}/mcp` };
    await using gateway = await openGateway({ routes: { all: { upstreams: { a: gone, b: gone } } } });
    const listing = connect(gateway, revision).then(async (client) => client.listTools());
    await expect(listing).rejects.toThrow(/no server answered|the list is incomplete|502/u);
    const greeting =
      revision === newestModern
        ? modernRequest(1, "server/discover")
        : { headers: postHeaders, body: handshake(revision) };
    expect((await postModern(gateway.url, greeting)).json).toMatchObject({
      error: { message: expect.stringMatching(/^no server answered: a \(.+\), b \(/u) as string },
    });
  });

  it("reaches a tool by a name that was never listed, cut or not", async () => {
    const long = "a_tool_with_a_name_that_is_much_longer_than_any_model_would_ever_accept_it";
    const upstreams = { first: small("first", "x"), second: small("second", "x", long) };
    await using gateway = await openGateway({ routes: { all: { upstreams } } });
    await using lister = await connect(gateway, revision);
    const cut = (await lister.listTools()).find((name) => name.startsWith("second__a_tool")) ?? "";
    expect(cut).toHaveLength(64);
    await using fresh = await openGateway({ routes: { all: { upstreams } } });
    await using client = await connect(fresh, revision);
    expect((await client.callTool(cut)).texts).toEqual([`second.${long} {}`]);
    expect((await client.callTool("second__x")).texts).toEqual(["second.x {}"]);
    await expect(client.callTool("third__x")).rejects.toThrow(/Unknown tool/u);
  });

  it("tells a client that a list has changed when what it may see has", async () => {
    const changing = () => {
      const server = createToolServer({ name: "changing", tools: ["x"], prompts: ["p"] });
      const content = { content: [] };
      const add = (tool: string) => {
        server.registerTool(tool, {}, () => content);
        return content;
      };
      server.registerTool("hide", {}, () => add("secret"));
      server.registerTool("grow", {}, () => add("grown"));
      server.registerTool("prompt", {}, () => {
        server.registerPrompt("another", {}, () => ({ messages: [] }));
        return content;
      });
      return server;
    };
    await using gateway = await openGateway({
      routes: { all: { upstreams: { changing: { server: changing }, other: small("other", "x") } } },
      policy: { lists: [{ id: "hidden", deny: 'entry.original == "secret"' }] },
    });
    await using client = await connect(gateway, revision);
    const told = (kind: string): number =>
      client.notified.filter(({ method }) => method === `notifications/${kind}/list_changed`).length;
    if (revision === newestModern) await client.sdk.listen({ toolsListChanged: true, promptsListChanged: true });
    expect(await client.listTools()).not.toContain("changing__grown");
    await client.callTool("changing__hide");
    // Told after the change that is not.
    await client.callTool("changing__prompt");
    await eventually(() => {
      expect(told("prompts")).toBe(1);
    });
    expect(told("tools")).toBe(0);
    await client.callTool("changing__grow");
    await eventually(() => {
      expect(told("tools")).toBe(1);
    });
    const tools = await client.listTools();
    expect(tools).toContain("changing__grown");
    expect(tools).not.toContain("changing__secret");
  });
});
