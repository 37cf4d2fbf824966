// What clients are told about servers that a gateway has not reached since it was started.
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, describe, expect, it } from "vitest";

import { newestLegacy, newestModern } from "../../src/protocol/revisions.ts";
import { freePort } from "../support/free-port.ts";
import { type LocalGateway, openGateway } from "../support/local-gateway.ts";
import { createToolServer } from "../support/tool-server.ts";
import { connectV2 } from "../support/v2-client.ts";

const home = mkdtempSync(join(tmpdir(), "headgate-facts-"));
let folders = 0;
const newFolder = (): string => join(home, String(++folders));
afterAll(() => {
  rmSync(home, { recursive: true });
});

/** A server that starts, or does not. */
function switchable(name: string, what: Parameters<typeof createToolServer>[0]) {
  const self = {
    isUp: true,
    server: () => {
      if (!self.isUp) throw new Error(`${name} is down`);
      return createToolServer(what);
    },
  };
  return self;
}

const tools = () => switchable("tools", { name: "tools", tools: ["x"] });
const docs = () => switchable("docs", { name: "docs", prompts: ["p"], resources: ["docs:a"] });

type Switchable = ReturnType<typeof switchable>;

function openFor(folder: string | undefined, members: Readonly<Record<string, Switchable>>): Promise<LocalGateway> {
  const upstreams = Object.fromEntries(Object.entries(members).map(([name, { server }]) => [name, { server }]));
  return openGateway({ state: { folder }, routes: { all: { upstreams } } });
}

describe.each([newestLegacy, newestModern])("after a restart, with a client of %s", (revision) => {
  const connect = ({ url }: LocalGateway) => connectV2({ via: "http", url }, revision);

  it("a server that is down is announced as it was, and used by the same client once it is back", async () => {
    const [folder, members] = [newFolder(), { tools: tools(), docs: docs() }];
    {
      await using gateway = await openFor(folder, members);
      await using client = await connect(gateway);
      expect(client.sdk.getServerCapabilities()).toMatchObject({ tools: {}, prompts: {}, resources: {} });
    }
    expect(statSync(join(folder, "servers.sqlite")).mode & 0o777).toBe(0o600);
    members.docs.isUp = false;
    await using gateway = await openFor(folder, members);
    await using client = await connect(gateway);
    expect(client.sdk.getServerCapabilities()).toMatchObject({
      tools: { listChanged: true },
      prompts: { listChanged: true },
      resources: { listChanged: true },
    });
    expect(client.sdk.getInstructions()).toContain("This is docs.");
    expect(await client.listTools()).toEqual(["tools__x"]);
    members.docs.isUp = true;
    const { prompts } = await client.sdk.listPrompts();
    expect(prompts.map(({ name }) => name)).toEqual(["docs__p"]);
  });

  it("clients can connect where no server is up yet, and lists are errors until one is", async () => {
    const [folder, members] = [newFolder(), { tools: tools(), docs: docs() }];
    {
      await using gateway = await openFor(folder, members);
      await using _client = await connect(gateway);
    }
    members.tools.isUp = false;
    members.docs.isUp = false;
    await using gateway = await openFor(folder, members);
    await using client = await connect(gateway);
    await expect(client.listTools()).rejects.toThrow(/the list is incomplete: tools \(.*docs \(/u);
    members.tools.isUp = true;
    expect(await client.listTools()).toEqual(["tools__x"]);
  });

  it("nothing is announced for a server that has another program or route", async () => {
    const [folder, members] = [newFolder(), { tools: tools(), docs: docs() }];
    {
      await using gateway = await openFor(folder, members);
      await using _client = await connect(gateway);
    }
    const url = `http://127.0.0.1:${await freePort()}/mcp`;
    const upstreams = { tools: { server: members.tools.server }, docs: { url } };
    const other = { tools: { server: members.tools.server }, docs: { command: "no-such-program" } };
    for (const routes of [{ all: { upstreams } }, { all: { upstreams: other } }]) {
      await using gateway = await openGateway({ state: { folder }, routes });
      await using client = await connect(gateway);
      expect(client.sdk.getServerCapabilities()).not.toHaveProperty("prompts");
    }
    members.docs.isUp = false;
    const routes = {
      all: { upstreams: { tools: { server: members.tools.server } } },
      more: { upstreams: { tools: { server: members.tools.server }, docs: { server: members.docs.server } } },
    };
    await using gateway = await openGateway({ state: { folder }, routes });
    await using client = await connectV2({ via: "http", url: `${gateway.origin}/more/mcp` }, revision);
    expect(client.sdk.getServerCapabilities()).not.toHaveProperty("prompts");
  });

  it("nothing is remembered without a state folder, and what a server says now replaces what it said", async () => {
    const [folder, members] = [newFolder(), { tools: tools(), docs: docs() }];
    for (const where of [undefined, folder]) {
      await using gateway = await openFor(where, members);
      await using _client = await connect(gateway);
    }
    members.docs.isUp = false;
    {
      await using gateway = await openFor(undefined, members);
      await using client = await connect(gateway);
      expect(client.sdk.getServerCapabilities()).not.toHaveProperty("prompts");
    }
    const changed = { ...members, docs: switchable("docs", { name: "docs", tools: ["y"] }) };
    {
      await using gateway = await openFor(folder, changed);
      await using _client = await connect(gateway);
    }
    changed.docs.isUp = false;
    await using gateway = await openFor(folder, changed);
    await using client = await connect(gateway);
    expect(client.sdk.getServerCapabilities()).not.toHaveProperty("prompts");
    expect(readdirSync(folder)).toContain("servers.sqlite");
  });
});
