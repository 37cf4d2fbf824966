import { resolve } from "node:path";

import { describe, expect, it } from "vitest";

import type { ConfigInput } from "../../src/config/schema.ts";
import { newestLegacy, newestModern } from "../../src/protocol/revisions.ts";
import { eventually } from "../support/eventually.ts";
import { startFixture } from "../support/fixture.ts";
import { openGateway } from "../support/local-gateway.ts";
import { createToolServer } from "../support/tool-server.ts";
import { connectV2, type V2Client } from "../support/v2-client.ts";

type Upstreams = NonNullable<NonNullable<ConfigInput["routes"]>[string]["upstreams"]>;

/** A server in a process of its own, behind the name `victim`. */
interface Victim extends AsyncDisposable {
  readonly upstream: Upstreams[string];
  /** A tool that reports progress and never answers. */
  readonly hold: string;
  /** Whether the gateway itself starts it again. */
  readonly isChild: boolean;
  readonly kill: (pid: number | undefined) => Promise<void>;
  readonly restart: () => Promise<void>;
}

async function overHttp(): Promise<Victim> {
  await using started = new AsyncDisposableStack();
  const { url, process: child } = started.use(await startFixture({ era: "dual" }));
  const kept = started.move();
  return {
    upstream: { url },
    hold: "test_hold",
    isChild: false,
    kill: async () => {
      process.kill(child.pid, "SIGKILL");
      await child.exited;
    },
    restart: async () => {
      kept.use(await startFixture({ era: "dual", port: Number(new URL(url).port) }));
    },
    [Symbol.asyncDispose]: async () => kept.disposeAsync(),
  };
}

async function overPipes(): Promise<Victim> {
  const script = resolve(import.meta.dirname, "../fixtures/stdio/pid.mjs");
  return {
    upstream: { command: process.execPath, args: [script] },
    hold: "hold",
    isChild: true,
    kill: async (pid = 0) => {
      process.kill(pid, "SIGKILL");
    },
    restart: async () => {},
    [Symbol.asyncDispose]: async () => {},
  };
}

/** A server with a tool that answers when it is told to. */
function patient() {
  const asked = Promise.withResolvers<void>();
  const release = Promise.withResolvers<void>();
  const server = () => {
    const created = createToolServer({ name: "patient", tools: ["x"] });
    created.registerTool("wait", {}, async () => {
      asked.resolve();
      await release.promise;
      return { content: [{ type: "text", text: "patient waited" }] };
    });
    return created;
  };
  return { server, asked: asked.promise, release: release.resolve };
}

const places = [newestLegacy, newestModern].flatMap((revision) =>
  [overHttp, overPipes].map((start) => ({ revision, start })),
);

describe.each(places)("a server that is killed while it works, with a client of $revision, $start.name", (place) => {
  it("fails its own calls alone; the lists lack it until it is back, and the client is told", async () => {
    await using victim = await place.start();
    const other = patient();
    const last = { server: () => createToolServer({ name: "last", tools: ["x"] }) };
    await using gateway = await openGateway({
      routes: {
        all: {
          upstreams: { other: { server: other.server }, victim: victim.upstream, last },
          // What was listed before is not shown, so that there is something to tell.
          federation: { listing: { stale: "1ms" } },
        },
      },
    });
    await using client = await connectV2({ via: "http", url: gateway.url }, place.revision);
    if (place.revision === newestModern) await client.sdk.listen({ toolsListChanged: true });
    const own = `victim__${victim.hold}`;
    expect(await client.listTools()).toContain(own);
    // A second call at the same time might get a second process.
    const pid = victim.isChild ? Number((await client.callTool("victim__pid")).texts[0]) : undefined;
    const running = Promise.withResolvers<void>();
    const held = client.callTool(own, { args: { key: "k" }, onProgress: () => running.resolve() });
    const failed = held.then(
      () => undefined,
      (error: unknown) => error,
    );
    const waiting = client.callTool("other__wait");
    await Promise.all([running.promise, other.asked]);
    const toldBefore = told(client);
    await victim.kill(pid);

    // At once, and not when a timeout is over.
    expect(await failed).toMatchObject({
      message: expect.stringMatching(/^victim: .*(ended its answer|could not be reached|SIGKILL)/u) as string,
      data: expect.objectContaining({ upstream: "victim", origin: "gateway" }) as unknown,
    });
    expect((await client.callTool("last__x")).texts).toEqual(["last.x {}"]);
    other.release();
    expect((await waiting).texts).toEqual(["patient waited"]);
    if (!victim.isChild) {
      await expect(client.callTool(own, { args: { key: "k" } })).rejects.toThrow(/./u);
      const { tools, _meta } = await client.sdk.listTools();
      expect(tools.map(({ name }) => name)).toEqual(["other__x", "other__wait", "last__x"]);
      expect(_meta).toMatchObject({ "headgate/degraded": [{ upstream: "victim", stale: false }] });
    }
    await victim.restart();
    if (!victim.isChild)
      await eventually(() => {
        expect(told(client)).toBeGreaterThan(toldBefore);
      });
    await eventually(async () => {
      const { tools, _meta } = await client.sdk.listTools();
      expect(tools.map(({ name }) => name)).toContain(own);
      expect(_meta?.["headgate/degraded"]).toBeUndefined();
    });
  });
});

function told({ notified }: V2Client): number {
  return notified.filter(({ method }) => method === "notifications/tools/list_changed").length;
}
