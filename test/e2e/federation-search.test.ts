import { describe, expect, it } from "vitest";

import { createLogger } from "../../src/telemetry/log.ts";
import { newestLegacy, newestModern } from "../../src/protocol/revisions.ts";
import { headgate, temporaryFolder } from "../support/capture-file.ts";
import { freePort } from "../support/free-port.ts";
import { openGateway } from "../support/local-gateway.ts";
import { createToolServer } from "../support/tool-server.ts";
import { connectV2 } from "../support/v2-client.ts";

const files = { server: () => createToolServer({ name: "files", tools: ["read", "write"] }) };
const views = { finder: { tools: ["*"], discovery: "search" as const } };

describe.each([newestLegacy, newestModern])("tools that are found by searching, with a client of %s", (revision) => {
  it("are logged, recorded and counted by their own names, allowed or not", async () => {
    using folder = temporaryFolder();
    const file = folder.at("traffic.sqlite");
    const lines: string[] = [];
    const log = createLogger({ level: "info", pretty: false, destination: { write: (line) => lines.push(line) } });
    {
      await using gateway = await openGateway(
        {
          routes: { desk: { upstreams: { files }, views } },
          policy: { rules: [{ id: "no-writes", deny: 'mcp.name == "write"' }, { allow: "true" }] },
          record: { file },
        },
        { log },
      );
      await using client = await connectV2({ via: "http", url: `${gateway.origin}/desk/finder/mcp` }, revision);
      const call = (name: string) => client.callTool("call_tool", { args: { name, arguments: {} } });
      expect((await call("files__read")).texts).toEqual(["files.read {}"]);
      await expect(call("files__write")).rejects.toThrow(/policy/u);
    }
    const traffic = async (filter: string): Promise<readonly unknown[]> => {
      const { output } = await headgate("traffic", filter, "--json", "-s", file);
      return output.split("\n").flatMap((line) => (line.startsWith("{") ? [JSON.parse(line) as unknown] : []));
    };
    expect(await traffic("tool:files__read")).toMatchObject([
      { target: "files__read", upstream: "files", state: "ok" },
    ]);
    expect(await traffic("tool:files__write")).toMatchObject([{ target: "files__write", state: "refused" }]);
    expect(await traffic("tool:call_tool")).toEqual([]);
    const exchanges = lines.filter((line) => line.includes('"msg":"exchange"') && line.includes("tools/call"));
    expect(exchanges.map((line) => (JSON.parse(line) as { target: string }).target)).toEqual([
      "files__read",
      "files__write",
    ]);
  });

  it("have the limits of calls and of the tool itself", async () => {
    const slow = () => {
      const server = createToolServer({ name: "slow", tools: ["quick"] });
      server.registerTool("wait", {}, () => new Promise<never>(() => {}));
      return server;
    };
    await using gateway = await openGateway({
      routes: {
        desk: {
          upstreams: { slow: { server: slow } },
          views,
          timeouts: { tools: { slow__wait: "1s" } },
          rates: { methods: { "tools/call": { perSecond: 0.01, burst: 2 } } },
        },
      },
    });
    await using client = await connectV2({ via: "http", url: `${gateway.origin}/desk/finder/mcp` }, revision);
    const call = (name: string) => client.callTool("call_tool", { args: { name, arguments: {} } });
    await expect(call("slow__wait")).rejects.toThrow(/in time/u);
    expect((await call("slow__quick")).texts).toEqual(["slow.quick {}"]);
    await expect(call("slow__quick")).rejects.toThrow(/429|rate|too many/iu);
  });

  it("are searched in what the servers have that answer, and the result says which do not", async () => {
    const gone = { url: `http://127.0.0.1:${await freePort()}/mcp` };
    await using gateway = await openGateway({ routes: { desk: { upstreams: { gone, files }, views } } });
    await using client = await connectV2({ via: "http", url: `${gateway.origin}/desk/finder/mcp` }, revision);
    const listed = await client.sdk.listTools();
    expect(listed.tools.map(({ name }) => name)).toEqual(["search_tools", "call_tool"]);
    const found = await client.sdk.callTool({ name: "search_tools", arguments: { query: "read" } });
    expect(JSON.stringify(found.content)).toContain("files__read");
    for (const { _meta } of [listed, found])
      expect(_meta?.["headgate/degraded"]).toMatchObject([{ upstream: "gone", stale: false }]);
  });
});
