import { describe, expect, it } from "vitest";

import { type Era, newestLegacy, newestModern } from "../../src/protocol/revisions.ts";
import { eventually } from "../support/eventually.ts";
import { openGateway } from "../support/local-gateway.ts";
import { type NamedMember, serveNamedMember } from "../support/named-member.ts";
import { connectV2, type V2Client } from "../support/v2-client.ts";

interface Place {
  readonly client: V2Client;
  readonly clientEra: Era;
  readonly serverEra: Era;
  /** Two servers with the same names; `b` is the second. */
  readonly a: NamedMember;
  readonly b: NamedMember;
}

const logLevel = { "io.modelcontextprotocol/logLevel": "debug" };

/** Every row of the routing table: a message, and who has to get it. */
const rows: Readonly<Record<string, (place: Place) => Promise<void>>> = {
  "tools/call: the server of the name, which gets its own name": async ({ client, a, b }) => {
    expect((await client.callTool("b__who", { args: { path: "/x" } })).texts).toEqual(['b.who {"path":"/x"}']);
    expect(a.received("tools/call")).toEqual([]);
    expectOwnName(b, "tools/call", "who");
  },
  "prompts/get: the server of the name": async ({ client, a, b }) => {
    expect(await client.getPrompt("b__greet", { whom: "Ada" })).toEqual(["b greets Ada"]);
    expect(a.received("prompts/get")).toEqual([]);
    expectOwnName(b, "prompts/get", "greet");
  },
  "completion/complete: the server of the prompt, or of the URI template": async ({ client, a, b }) => {
    const complete = async (ref: Parameters<V2Client["sdk"]["complete"]>[0]["ref"], name: string) =>
      (await client.sdk.complete({ ref, argument: { name, value: "" } })).completion.values;
    expect(await complete({ type: "ref/prompt", name: "b__greet" }, "whom")).toEqual(["b-prompt"]);
    expect(await complete({ type: "ref/resource", uri: "b://items/{id}" }, "id")).toEqual(["b-item"]);
    expect(a.received("completion/complete")).toEqual([]);
    expect(b.received("completion/complete").map(({ params }) => params["ref"])).toEqual([
      { type: "ref/prompt", name: "greet" },
      { type: "ref/resource", uri: "b://items/{id}" },
    ]);
  },
  "resources/read: who lists the URI, whose template fits, who linked to it, and the first of several": async ({
    client,
    a,
  }) => {
    expect(await client.readResource("b://watched")).toEqual(["b b://watched"]);
    expect(await client.readResource("b://items/7")).toEqual(["b b://items/7"]);
    expect(await client.readResource("shared://one")).toEqual(["a shared://one"]);
    await client.callTool("b__link");
    expect(await client.readResource("only-linked:b")).toEqual(["b only-linked:b"]);
    expect(a.received("resources/read").map(({ params }) => params["uri"])).toEqual(["shared://one"]);
    // Nobody has shown this one: each server is asked.
    expect(await client.readResource("only-linked:a")).toEqual(["a only-linked:a"]);
    await expect(client.readResource("nobody:has-it")).rejects.toThrow(/not found|nobody:has-it/iu);
  },
  "lists: all servers, in order": async ({ client }) => {
    const { sdk } = client;
    const tools = await client.listTools();
    expect(tools.filter((name) => name.endsWith("__who"))).toEqual(["a__who", "b__who"]);
    expect((await sdk.listPrompts()).prompts.map(({ name }) => name)).toEqual(["a__greet", "b__greet"]);
    expect((await sdk.listResources()).resources.map(({ uri }) => uri)).toEqual([
      "a://watched",
      "shared://one",
      "b://watched",
    ]);
    const { resourceTemplates } = await sdk.listResourceTemplates();
    expect(resourceTemplates.map(({ uriTemplate }) => uriTemplate)).toEqual(["a://items/{id}", "b://items/{id}"]);
  },
  "log levels: all servers that log, and the logger says which one writes": async ({
    client,
    clientEra,
    serverEra,
    a,
    b,
  }) => {
    if (clientEra === "legacy") await client.sdk.setLoggingLevel("debug");
    if (clientEra === "legacy" && serverEra === "legacy")
      for (const member of [a, b])
        expect(member.received("logging/setLevel").map(({ params }) => params["level"])).toEqual(["debug"]);
    for (const name of ["a__log", "b__log"])
      await client.sdk.callTool({ name, arguments: {}, ...(clientEra === "modern" ? { _meta: logLevel } : {}) });
    await eventually(() => {
      const logged = client.notified.filter(({ method }) => method === "notifications/message");
      expect(logged.map(({ params }) => params)).toMatchObject([
        { logger: "a/core", data: "a logs" },
        { logger: "b/core", data: "b logs" },
      ]);
    });
  },
  "roots: asked by the server of the call, and changes told to all that can hear of them": async ({
    client,
    clientEra,
    serverEra,
    a,
    b,
  }) => {
    expect((await client.callTool("b__roots")).texts).toEqual(["b: file:///tests"]);
    if (clientEra === "modern") return;
    await client.sdk.transport?.send({ jsonrpc: "2.0", method: "notifications/roots/list_changed" });
    // A modern server asks when it wants to know.
    const expected = serverEra === "legacy" ? 1 : 0;
    await eventually(() => {
      for (const member of [a, b]) expect(member.received("notifications/roots/list_changed")).toHaveLength(expected);
    });
  },
  "questions: back to the client of the call, and they say who asks": async ({ client }) => {
    const asked: string[] = [];
    client.sdk.setRequestHandler("elicitation/create", ({ params }) => {
      asked.push(params.message);
      return { action: "accept", content: { who: "Ada" } };
    });
    const [first, second] = await Promise.all([client.callTool("a__ask"), client.callTool("b__ask")]);
    expect(first.texts).toEqual(['a: {"who":"Ada"}']);
    expect(second.texts).toEqual(['b: {"who":"Ada"}']);
    expect(asked.toSorted()).toEqual(["Alpha: Who are you?", "Beta: Who are you?"]);
    expect((await client.callTool("b__sample")).texts.join()).toContain("Paris");
  },
  "progress: from the server of the call": async ({ client }) => {
    const reports: number[] = [];
    await client.callTool("b__report", { onProgress: (report) => reports.push(report) });
    expect(reports).toEqual([7]);
  },
  "cancellation: to the server of the call": async ({ client, a, b }) => {
    const leaving = new AbortController();
    const held = client.callTool("b__hold", {
      signal: leaving.signal,
      onProgress: () => {
        leaving.abort(new Error("no longer needed"));
      },
    });
    await expect(held).rejects.toThrow(/no longer needed/u);
    await b.cancelled;
    expect(a.received("notifications/cancelled")).toEqual([]);
  },
  "subscriptions: to the owner of each URI, and updates from there": async ({ client, clientEra, a, b }) => {
    const uris = ["a://watched", "b://watched"];
    if (clientEra === "modern") await client.sdk.listen({ resourceSubscriptions: uris });
    else for (const uri of uris) await client.sdk.subscribeResource({ uri });
    const updated = (): readonly unknown[] =>
      client.notified
        .filter(({ method }) => method === "notifications/resources/updated")
        .map(({ params }) => Object(params)["uri"] as unknown);
    await client.callTool("b__update");
    await eventually(() => {
      expect(updated()).toEqual(["b://watched"]);
    });
    await client.callTool("a__update");
    await eventually(() => {
      expect(updated()).toEqual(["b://watched", "a://watched"]);
    });
    // Neither heard of what is the other's.
    expect(JSON.stringify([...a.received("resources/subscribe"), ...a.received("subscriptions/listen")])).not.toContain(
      "b://watched",
    );
    expect(JSON.stringify([...b.received("resources/subscribe"), ...b.received("subscriptions/listen")])).not.toContain(
      "a://watched",
    );
  },
  "list changes: told once the list is another one": async ({ client, clientEra }) => {
    if (clientEra === "modern") await client.sdk.listen({ toolsListChanged: true });
    expect(await client.listTools()).not.toContain("b__grown0");
    await client.callTool("b__grow");
    await eventually(() => {
      expect(client.notified.map(({ method }) => method)).toContain("notifications/tools/list_changed");
    });
    expect(await client.listTools()).toContain("b__grown0");
    expect((await client.callTool("b__grown0")).texts).toEqual(["b: grown0"]);
  },
};

/** The header that repeats the name is made anew for the server. */
function expectOwnName({ received, era }: NamedMember, method: string, name: string): void {
  const [only, another] = received(method);
  expect(another).toBeUndefined();
  expect(only?.params["name"]).toBe(name);
  expect(only?.headers["mcp-name"]).toBe(era === "modern" ? name : undefined);
}

const eras = ["legacy", "modern"] as const;
const cells = eras.flatMap((clientEra) => eras.map((serverEra) => ({ clientEra, serverEra })));

describe.each(cells)("a $clientEra client and two $serverEra servers behind one endpoint", (cell) => {
  it.each(Object.entries(rows))("%s", async (_message, expectRow) => {
    await using a = await serveNamedMember("a", cell.serverEra);
    await using b = await serveNamedMember("b", cell.serverEra);
    await using gateway = await openGateway({
      routes: {
        all: {
          upstreams: { a: { url: a.url, title: "Alpha" }, b: { url: b.url, title: "Beta" } },
          federation: { listing: { wait: "30s" } },
        },
      },
    });
    const revision = cell.clientEra === "legacy" ? newestLegacy : newestModern;
    await using client = await connectV2({ via: "http", url: gateway.url }, revision);
    await expectRow({ ...cell, client, a, b });
  });
});
