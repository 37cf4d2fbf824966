import { describe, expect, it } from "vitest";

import type { ConfigInput } from "../../src/config/schema.ts";
import { startMockAuthZen } from "../../src/policy/testing/mock-authzen.ts";
import { startMockPingAuthorize } from "../../src/policy/testing/mock-ping-authorize.ts";
import { newestLegacy, newestModern } from "../../src/protocol/revisions.ts";
import { headgate, temporaryFolder } from "../support/capture-file.ts";
import { openGateway, type LocalGateway } from "../support/local-gateway.ts";
import { createToolServer } from "../support/tool-server.ts";
import { connectV2 } from "../support/v2-client.ts";

const upstreams = {
  hr: {
    server: () =>
      createToolServer({ name: "hr", tools: ["read", "write"], prompts: ["ask"], resources: ["hr://staff"] }),
  },
  wiki: {
    server: () =>
      createToolServer({ name: "wiki", tools: ["read", "write"], prompts: ["ask"], resources: ["wiki://home"] }),
    prefix: "w",
  },
};

type Policy = NonNullable<ConfigInput["policy"]>;

const open = (policy: Policy, more: ConfigInput = {}): Promise<LocalGateway> =>
  openGateway({ routes: { all: { upstreams } }, policy, ...more });

describe.each([newestLegacy, newestModern])("a policy in front of several servers, with a client of %s", (revision) => {
  const connect = (gateway: LocalGateway) => connectV2({ via: "http", url: gateway.url }, revision);

  it("decides by the server and by its own name, in calls and in lists", async () => {
    await using gateway = await open({
      rules: [
        { id: "wiki", allow: 'mcp.upstream == "wiki"' },
        { id: "reads", allow: 'mcp.upstream == "hr" && mcp.name == "read" && mcp.tool == "hr__read"' },
        { id: "handshake", allow: 'mcp.upstream == "" && mcp.name == ""' },
      ],
    });
    await using client = await connect(gateway);
    expect(await client.listTools()).toEqual(["hr__read", "w__read", "w__write"]);
    expect((await client.callTool("hr__read")).texts).toEqual(["hr.read {}"]);
    expect((await client.callTool("w__write")).texts).toEqual(["wiki.write {}"]);
    await expect(client.callTool("hr__write")).rejects.toThrow(/policy/u);
    expect(await client.readResource("wiki://home")).toEqual(["wiki wiki://home"]);
    await expect(client.readResource("hr://staff")).rejects.toThrow(/policy/u);
    expect((await client.sdk.listPrompts()).prompts.map(({ name }) => name)).toEqual(["w__ask"]);
  });

  it("filters lists by the server of an entry and by its own name", async () => {
    await using gateway = await open({
      lists: [{ id: "no-writes", deny: 'entry.upstream == "hr" && entry.original == "write"' }],
    });
    await using client = await connect(gateway);
    expect(await client.listTools()).toEqual(["hr__read", "w__read", "w__write"]);
    await expect(client.callTool("hr__write")).rejects.toThrow(/Unknown tool/u);
  });

  it("asks an AuthZEN decision point with both names", async () => {
    await using mock = await startMockAuthZen({
      policy: ({ resource }) => resource.properties?.["upstream"] !== "hr" || resource.properties["name"] === "read",
    });
    await using gateway = await open({ authzen: { url: mock.url } });
    await using client = await connect(gateway);
    expect(await client.listTools()).toEqual(["hr__read", "w__read", "w__write"]);
    expect((await client.callTool("w__write")).isError).toBe(false);
    const call = mock.requests.findLast(({ endpoint }) => endpoint === "evaluation");
    expect(call?.body).toMatchObject({
      resource: { type: "tool", id: "w__write", properties: { server: "all", upstream: "wiki", name: "write" } },
    });
  });

  it("asks PingAuthorize with both names, and not with what a client says they are", async () => {
    await using mock = await startMockPingAuthorize({ secret: { header: "PDG-TOKEN", value: "s3cret" } });
    await using gateway = await open({
      pingAuthorize: { serviceUrl: mock.url, sharedSecret: "s3cret", secretHeaderName: "PDG-TOKEN" },
    });
    await using client = await connect(gateway);
    await client.callTool("w__write");
    const headers = JSON.stringify(
      mock.requests.findLast(({ endpoint }) => endpoint === "request")?.payload["headers"],
    );
    expect(headers).toContain('{"headgate-upstream":"wiki"}');
    expect(headers).toContain('{"headgate-name":"write"}');
  });
});

describe("recordings and metrics of several servers", () => {
  it("name the server, and are searched by it", async () => {
    using folder = temporaryFolder();
    const file = folder.at("traffic.sqlite");
    {
      await using gateway = await openGateway({
        routes: { all: { upstreams } },
        record: { file },
        admin: { port: 0 },
      });
      await using client = await connectV2({ via: "http", url: gateway.url }, newestModern);
      await client.callTool("hr__read");
      await client.callTool("w__read");
      const text = await (await fetch(`${gateway.adminUrl}/metrics`)).text();
      expect(text).toContain('headgate_member_exchanges_total{route="all",member="wiki",outcome="ok"} 1');
    }
    for (const term of ["upstream", "member"]) {
      const { output } = await headgate("traffic", `${term}:wiki method:tools/call`, "--json", "-s", file);
      const found = output.split("\n").filter((line) => line.startsWith("{"));
      expect(found.map((line) => JSON.parse(line) as unknown)).toEqual([
        expect.objectContaining({ upstream: "wiki", target: "w__read", method: "tools/call" }),
      ]);
    }
    // What the gateway itself asks a server is recorded too.
    const { output } = await headgate("traffic", "upstream:wiki method:server/discover", "--json", "-s", file);
    expect(output).toContain('"upstream":"wiki"');
  });
});
